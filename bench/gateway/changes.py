"""What one change costs the control plane, against an earlier revision, as a markdown table.

    .venv/bin/python bench/gateway/changes.py --from REVISION [--pairs 5] [--models 10 1000]
                                              [--bar QUANTITY=RATIO ...]

Each side's control plane runs as the platform starts it: it reads routes and health from a real
Consul, and a real Envoy acknowledges what it is told. A recorder between the two counts the
responses. Two kinds of change, three of each in a session: a replica fails its check, and a model's
route document has another timeout. Processor time is the control plane's own, less what it takes
in the same time without a change. Acknowledgements are counted from the change in Consul. Every
model has two replicas and both protocols. Exits with 1 over a bar. About 2 minutes a pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.gateway.checkouts import earlier, this_checkout  # noqa: E402
from bench.gateway.consul import Consul, consul  # noqa: E402
from bench.gateway.own_gateway import Programs  # noqa: E402
from bench.gateway.recorded import Cost, control_plane  # noqa: E402
from bench.gateway.replicas import NETWORK  # noqa: E402
from bench.pairs import Measurement, add_arguments, compare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

SIZES = (10, 1000)
# Of each kind in a session, which must end before Consul ends its first blocking queries: they are
# asked again after a minute, all at once.
CHANGES = 3
REPLICAS = 2
KINDS = {"health": "a replica fails its check", "route": "a route document changes"}
FIGURES = {
    "cpu": "CPU ms",
    "kB": "kB of responses",
    "resources": "resources sent",
    "ack": "slowest acknowledgement, ms",
}
QUANTITIES = {
    f"{size}-{kind}-{figure}": f"{size:,} models, {text}: {unit}"
    for size in SIZES
    for kind, text in KINDS.items()
    for figure, unit in FIGURES.items()
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", required=True)
    parser.add_argument("--models", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    add_arguments(parser, QUANTITIES)
    options = parser.parse_args()
    sent: dict[tuple[str, int, str], Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="slipway-changes-") as folder, ExitStack() as stack:
        path, cache = Path(folder), default_cache()
        sides = {
            path / "before": Programs(earlier(options.revision, path / "before"), cache),
            path / "now": Programs(this_checkout(path / "now"), cache),
        }
        measurements = []
        for size in options.models:
            agent = _stocked(stack, sides[path / "now"].consul, path, size)
            measure = partial(_session, sides, agent, size, sent)
            measurements.append(Measurement(of=measure))
        code = compare(options, path / "before", path / "now", measurements, QUANTITIES)
    print()
    for (side, size, kind), resources in sorted(sent.items()):
        listed = ", ".join(f"{count} {name}" for name, count in sorted(resources.items()))
        print(f"* {side}, {size:,} models, {KINDS[kind]}: {listed}")
    return code


def _stocked(stack: ExitStack, program: Path, folder: Path, size: int) -> Consul:
    """A Consul with the replicas of so many models."""
    here = folder / f"consul-{size}"
    here.mkdir()
    host = f"{NETWORK}.{201 + SIZES.index(size)}"
    agent = stack.enter_context(consul(program, host, here))
    for number in range(size):
        for replica in range(REPLICAS):
            _register(agent, number, replica)
    return agent


def _session(
    sides: Mapping[Path, Programs],
    agent: Consul,
    size: int,
    sent: dict[tuple[str, int, str], Counter[str]],
    side: Path,
) -> dict[str, float]:
    """The figures of one start of a side's control plane, by the names of QUANTITIES."""
    planned = sides[side].checkout.route()
    documents = [_route(planned, number) for number in range(size)]
    for document in documents:
        agent.put_route(document)
    with (
        tempfile.TemporaryDirectory(prefix="slipway-session-") as folder,
        control_plane(sides[side], agent, models=size, folder=Path(folder)) as watched,
    ):
        idle_ms_per_s = watched.idle_ms_per_s()
        costs = {
            "health": [
                watched.cost(partial(_set_health, agent, number, passing=False), idle_ms_per_s)
                for number in range(CHANGES)
            ],
            "route": [
                watched.cost(partial(_change, agent, document), idle_ms_per_s)
                for document in documents[:CHANGES]
            ],
        }
    for number in range(CHANGES):
        _set_health(agent, number, passing=True)
    for kind, found in costs.items():
        sent[side.name, size, kind] = found[-1].resources
    return {
        f"{size}-{kind}-{figure}": value
        for kind, found in costs.items()
        for figure, value in _medians(found).items()
    }


def _medians(costs: Sequence[Cost]) -> dict[str, float]:
    return {
        "cpu": statistics.median(cost.cpu_ms for cost in costs),
        "kB": statistics.median(cost.kilobytes for cost in costs),
        "resources": statistics.median(cost.resources.total() for cost in costs),
        "ack": max(cost.acknowledged_ms for cost in costs),
    }


def _route(planned: Mapping[str, Any], number: int) -> dict[str, Any]:
    backends = [{"service": _service(number), "weight": 100}]
    return {**planned, "model": f"model-{number:04}", "aliases": [], "backends": backends}


def _change(agent: Consul, document: Mapping[str, Any]) -> None:
    timeout_s = document["stream_idle_timeout_s"] + 1
    agent.put_route({**document, "stream_idle_timeout_s": timeout_s})


def _set_health(agent: Consul, number: int, *, passing: bool) -> None:
    """Of one replica over one protocol: a check is that of one port."""
    agent.set_health(f"{_service(number)}-openai", *_place(number, 0, 8000), passing=passing)


def _register(agent: Consul, number: int, replica: int) -> None:
    for suffix, port in (("openai", 8000), ("grpc", 8001)):
        agent.register(f"{_service(number)}-{suffix}", *_place(number, replica, port))


def _place(number: int, replica: int, port: int) -> tuple[str, int]:
    """Nobody listens there."""
    return f"{NETWORK}.{211 + replica}", port + 2 * number


def _service(number: int) -> str:
    return f"model-{number:04}-1"


if __name__ == "__main__":
    sys.exit(main())
