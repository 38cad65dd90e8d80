"""An Envoy beside the other tasks of a job, which speaks TLS for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER, File, Task

NAME = "tls-proxy"
MEBIBYTE = 1 << 20
_Json = dict[str, Any]


def sidecar(
    bootstrap: File, certificate: Iterable[File], *, tool: str, cpu_mhz: int, memory_bytes: int
) -> Task:
    """A task that starts before the others and ends after them, so that running requests can
    finish. `tool` is the name and version of Envoy, `certificate` the files of its certificate."""
    return Task(
        name=NAME,
        command=f"${{meta.runtime}}/tools/bin/{tool}/envoy",
        args=(
            *("--config-path", bootstrap.path),
            *("--concurrency", "1"),
            "--disable-hot-restart",  # its socket names are machine-wide
            *("--log-level", "warning"),
        ),
        files=(*certificate, bootstrap),
        cpu_mhz=cpu_mhz,
        memory_mb=memory_bytes // MEBIBYTE,
        runs_beside_the_others=True,
    )


def bootstrap_file(
    listeners: list[_Json],
    clusters: list[_Json],
    *,
    templates: tuple[str, ...],
    change_mode: str = "noop",
) -> File:
    """No admin interface, and nothing from a control plane."""
    document = {
        "node": {"id": NAME, "cluster": NAME},  # without them Envoy reads no secrets
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }
    return File(
        path="local/envoy.json",
        content=json.dumps(document, indent=2, sort_keys=True) + "\n",
        templates=templates,
        change_mode=change_mode,
    )


def port(label: str) -> str:
    """In a task's files: the number of the port with this label."""
    return f"{LEFT_DELIMITER} env `NOMAD_PORT_{label}` {RIGHT_DELIMITER}"
