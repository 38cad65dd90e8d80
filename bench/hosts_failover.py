"""How soon hosts that lose their power or their network are done without, as a markdown table.

    sudo .venv/bin/python bench/hosts_failover.py

Starts the hosts of tests/hosts/failover.py on this machine (root, and nothing else of tests/hosts
meanwhile), brings an environment up on them, and ends one after the other under streams. About ten
minutes. Exits with 1 over a bar.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.hosts.bed import Bed, bed, missing_to_run  # noqa: E402
from tests.hosts.environment import Checkout, environment  # noqa: E402
from tests.hosts.failover import (  # noqa: E402
    CONSUL,
    EDGES,
    NOMAD,
    SERVERS,
    SETTINGS,
    WORKERS,
    Lost,
    lose_leader,
    lose_shared_address,
    lose_worker,
    pull_cable,
)
from toolchain.settings import default_cache  # noqa: E402

NEW_LEADER_S, ADDRESS_MOVES_S, ENDPOINTS_OUT_S = 10, 3, 5
ASKED_FOR_S = 0.5  # before the address is asked again
STREAM_ENDS_S = 1  # after the endpoints are out
MODELS = {"sim-a": {"min": 2, "max": 2}}


class Folders:
    def __init__(self, parent: str) -> None:
        self.parent = parent

    def mktemp(self, basename: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{basename}-", dir=self.parent))


def main() -> int:
    if reason := missing_to_run():
        print(reason, file=sys.stderr)
        return 2
    before, over = loop_factor(), False
    cache = default_cache() / "hosts"
    hidden = (Path.home(), ROOT, cache.parent)
    addresses = {**SERVERS, **WORKERS, **EDGES}
    print("| lost | noticed after | bar | streams that failed |\n|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as parent,
        bed(addresses, cache=cache, hidden=hidden) as hosts,
        environment(hosts, Folders(parent), models=MODELS, settings=SETTINGS) as checkout,
    ):
        checkout.slipway("up")
        for what, lost, bar_s in losses(checkout, hosts):
            ended_s = max((s.ended_s for s in lost.streamed.ended if s.failed), default=0.0)
            over |= lost.took_s > bar_s or ended_s - lost.lost_s > bar_s + STREAM_ENDS_S
            failed, all_of_them = len(lost.streamed.failed), len(lost.streamed.ended)
            cells = (what, f"{lost.took_s:.1f} s", f"{bar_s} s", f"{failed} of {all_of_them}")
            print("| " + " | ".join(cells) + " |", flush=True)
            if lost.back_s:
                print(f"| its replicas are back | {lost.back_s - lost.lost_s:.1f} s | | |")
    print(f"\n{measured_on(before)}")
    return int(over)


def losses(checkout: Checkout, hosts: Bed) -> Iterator[tuple[str, Lost, int]]:
    """(what is lost, how it went, the bar)"""
    yield "Consul's leader", lose_leader(checkout, hosts, CONSUL), NEW_LEADER_S
    yield "Nomad's leader", lose_leader(checkout, hosts, NOMAD), NEW_LEADER_S
    moved = lose_shared_address(hosts, asked_for_s=ASKED_FOR_S)
    yield "the edge host with the shared address", moved, ADDRESS_MOVES_S
    yield "a worker's power", lose_worker(checkout, hosts), ENDPOINTS_OUT_S
    yield "a worker's cable", pull_cable(checkout, hosts), ENDPOINTS_OUT_S


if __name__ == "__main__":
    sys.exit(main())
