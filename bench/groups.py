"""How soon nothing more is sent to a group of hosts that has broken, as a markdown table.

    sudo .venv/bin/python bench/groups.py

Starts the hosts of tests/hosts/groups.py on this machine (root, and nothing else of tests/hosts
meanwhile), brings three groups of a simulated engine up on them, and breaks one after the other
under streams. About seven minutes. Exits with 1 over a bar.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.hosts_failover import Folders  # noqa: E402
from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.hosts.bed import bed, missing_to_run  # noqa: E402
from tests.hosts.broken_groups import BREAKS, GROUPS, break_group  # noqa: E402
from tests.hosts.environment import environment  # noqa: E402
from tests.hosts.groups import ADDRESSES, FABRIC, SETTINGS, write_model  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

MODELS = {"sim-a": {"min": GROUPS, "max": GROUPS}}


def main() -> int:
    if reason := missing_to_run():
        print(reason, file=sys.stderr)
        return 2
    before, over = loop_factor(), False
    cache = default_cache() / "hosts"
    hidden = (Path.home(), ROOT, cache.parent)
    print("| a group, when | last new request after | bar | whole after | streams that failed |")
    print("|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as parent,
        bed(ADDRESSES, cache=cache, hidden=hidden, fabric=FABRIC) as hosts,
        environment(hosts, Folders(parent), models=MODELS, settings=SETTINGS) as checkout,
    ):
        write_model(checkout)
        checkout.slipway("up")
        for event, wanted in BREAKS.items():
            broken = break_group(checkout, hosts, event)
            over |= broken.last_new_s > wanted.bar_s
            failed, every = len(broken.streamed.failed), len(broken.streamed.ended)
            times = (
                f"{broken.last_new_s:.1f} s",
                f"{wanted.bar_s:g} s",
                f"{broken.formed_s:.1f} s",
            )
            print("| " + " | ".join((event, *times, f"{failed} of {every}")) + " |", flush=True)
    print(f"\n{measured_on(before)}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
