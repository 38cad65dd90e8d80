"""How soon replicas leave devices that turn bad, and which streams fail, as a markdown table.

    sudo .venv/bin/python bench/accelerator_faults.py [--runs 3]

Starts the hosts of tests/hosts/accelerators.py on this machine (root, and nothing else of
tests/hosts meanwhile), whose devices a library shows, brings an environment up on them, and breaks
devices under streams: with a spare one, and without. About six minutes; ends what it started.
Exits with 1 over a bar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.hosts_failover import Folders  # noqa: E402
from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.hosts.accelerators import (  # noqa: E402
    ADDRESSES,
    GPUS,
    SETTINGS,
    put_devices,
    with_simulated_replicas,
)
from tests.hosts.bed import bed, missing_to_run  # noqa: E402
from tests.hosts.device_faults import (  # noqa: E402
    STREAMED,
    Move,
    leave_for_a_spare_device,
    leave_once_a_device_is_free,
    trust_again,
)
from tests.hosts.environment import Stream, environment  # noqa: E402
from tests.hosts.weight_sources import (  # noqa: E402
    give_credentials,
    weight_sources,
    write_models,
)
from toolchain.settings import default_cache  # noqa: E402

# Nomad's agents tell their servers of changes after up to 10 s. A replica that moves ends 10 s
# after it was told to, before its successor starts, which loads in a second here.
KNOWN_S, ANSWERS_S = 15, 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    if reason := missing_to_run():
        print(reason, file=sys.stderr)
        return 2
    before, over = loop_factor(), False
    measured = list(moves(runs))
    print("| | measured | bar |\n|---|---|---|")
    for what, seconds, bar_s in waits(measured):
        over |= max(seconds) > bar_s
        spread = f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f}"
        print(f"| {what} | {spread}, {len(seconds)} faults) | {bar_s} s |")
    for what, streams, bar in failures(measured):
        failed = [each for each in streams if each.failed]
        over |= bar == "0" and bool(failed)
        print(f"| {what} | {len(failed)} of {len(streams)} | {bar} |")
    print(f"\n{measured_on(before)}")
    return int(over)


def moves(runs: int) -> Iterator[tuple[Move, Move]]:
    """With a spare device, and without."""
    cache = default_cache() / "hosts"
    hidden = (Path.home(), ROOT, cache.parent)
    with (
        tempfile.TemporaryDirectory() as parent,
        bed(ADDRESSES, cache=cache, hidden=hidden) as hosts,
        environment(
            hosts,
            Folders(parent),
            models={},
            settings=SETTINGS,
            files=with_simulated_replicas,
        ) as checkout,
        weight_sources(tuple(GPUS)) as sources,
    ):
        put_devices(hosts, Folders(parent).mktemp("library"))
        checkout.slipway("up")
        give_credentials(checkout, sources)
        write_models(checkout, sources)
        checkout.slipway("up")
        for _ in range(runs):
            with_spare = leave_for_a_spare_device(checkout, hosts)
            yield with_spare, leave_once_a_device_is_free(checkout, hosts)
            trust_again(checkout)


def waits(measured: Sequence[tuple[Move, Move]]) -> Iterator[tuple[str, list[float], int]]:
    """(what, seconds, bar)"""
    known = [move.unhealthy_s - move.fault_s for pair in measured for move in pair]
    yield "from a fault until Nomad's servers know", known, KNOWN_S
    spare = [move.answers_s - move.place_s for move, _ in measured]
    yield "from then until a replica answers on a spare device", spare, ANSWERS_S
    waited = [move.answers_s - move.place_s for _, move in measured]
    yield "without one: from a free device until a replica answers on it", waited, ANSWERS_S


def failures(measured: Sequence[tuple[Move, Move]]) -> Iterator[tuple[str, list[Stream], str]]:
    """(what, streams, bar): a model's only replica cannot be replaced before it ends."""
    with_others = [
        stream
        for spare, waited in measured
        for move, models in ((spare, STREAMED), (waited, set(STREAMED) - {waited.model}))
        for model in models
        for stream in move.streamed[model].ended
    ]
    yield (
        "failed streams of all models that have another replica, or none that moves",
        with_others,
        "0",
    )
    alone = [stream for _, move in measured for stream in move.streamed[move.model].ended]
    yield "streams of a model whose only replica moved, refused meanwhile", alone, ""


if __name__ == "__main__":
    sys.exit(main())
