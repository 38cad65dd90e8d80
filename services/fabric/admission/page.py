"""The figures that Prometheus reads."""

from __future__ import annotations

from collections.abc import Mapping

from admission.verdicts import Admission

ADMITTED = "slipway_fabric_admitted"
_HEAD = (
    f"# HELP {ADMITTED} Whether the host takes members of groups; `reason` says why not.\n"
    f"# TYPE {ADMITTED} gauge\n"
)


def exposition(known: Mapping[tuple[str, str], Admission]) -> str:
    """`known` is by pool and host."""
    lines = [
        f"{ADMITTED}{_labels(pool, host, each)} {int(each.admitted)}\n"
        for (pool, host), each in sorted(known.items())
    ]
    return _HEAD + "".join(lines)


def _labels(pool: str, host: str, admission: Admission) -> str:
    labels = {
        "host": host,
        "pool": pool,
        "verdict": admission.verdict,
        "reason": admission.reason,
        "fix": admission.fix,
    }
    written = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(written) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
