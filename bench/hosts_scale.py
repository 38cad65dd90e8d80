"""The time of the Pulumi program for an environment of many hosts, as a markdown table.

    .venv/bin/python bench/hosts_scale.py [--hosts 1000]
    .venv/bin/python bench/hosts_scale.py --from REVISION [--pairs 5] [--bar QUANTITY=RATIO ...]

As bench/preview_scale.py, for owned machines. Then lists one host more, and names the resources
that differ: those of the new host, and few others. With --from, compares time and memory with
those of an earlier revision of this repository instead. Exits with 1 over a bar.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.pairs import Measurement, add_arguments, compare, program_of  # noqa: E402
from bench.preview_scale import ENGINE, Stopwatch, report, run  # noqa: E402
from bench.revisions import extract  # noqa: E402
from stacks.recording import Recording, Registration  # noqa: E402

BAR_S, BAR_MB = 15.0, 600.0
QUANTITIES = {"program": "the whole program, s", "peak": "peak RSS, MB"}
SERVERS = 3
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGp1c3QgYSBrZXkgdGhhdCBpcyBvZiBubyBob3N0"


class Digests(Recording):
    """Keeps a digest of each resource's inputs by its name: the program's memory is measured."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: dict[str, str] = {}

    def add(self, found: Registration) -> None:
        inputs = json.dumps(found.inputs, sort_keys=True, default=repr).encode()
        self.digests[found.name] = hashlib.sha256(inputs).hexdigest()


def main() -> int:
    stopwatch = Stopwatch()
    stopwatch.lap("start of Python, imports")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--from", dest="revision")
    add_arguments(parser, QUANTITIES)
    options = parser.parse_args()
    return against(options) if options.revision else alone(options.hosts, stopwatch)


def alone(count: int, stopwatch: Stopwatch) -> int:
    before = loop_factor()
    first = Digests()
    run(lambda root: write_environment(root, count), stopwatch, into=first)
    what = f"{count} hosts, {len(first.digests)} resources"
    print(f"{measured_on(before)}\n")
    code = report(what, stopwatch, bar_s=BAR_S, bar_mb=BAR_MB)

    second = Digests()
    run(lambda root: write_environment(root, count + 1), Stopwatch(), into=second)
    added = sorted(second.digests.keys() - first.digests.keys())
    changed = sorted(name for name, now in first.digests.items() if second.digests.get(name) != now)
    print(f"\none host more: adds {', '.join(added)}; changes {', '.join(changed) or 'nothing'}")
    return code


def against(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="slw-") as folder:
        before = Path(folder, "before")
        extract(options.revision, before)
        subprocess.run([before / "slipway", "plan"], check=True, capture_output=True)  # makes .venv
        benchmark = ("bench/hosts_scale.py", "--hosts", str(options.hosts))
        program = Measurement(of=lambda side: program_of(side, *benchmark))
        return compare(options, before, ROOT, [program], QUANTITIES)


def write_environment(root: Path, count: int) -> None:
    """Pulumi.scale.yaml and its inventory, the model that runs, and the hosts' public keys."""
    listed = [
        {
            "name": f"host-{index}",
            "address": f"10.60.{1 + index // 250}.{1 + index % 250}",
            "pool": "cpu",
        }
        for index in range(count)
    ]
    servers = [{"name": f"server-{k}", "address": f"10.60.0.{1 + k}"} for k in range(SERVERS)]
    edge = [{"name": "edge-0", "address": "10.60.0.31"}]
    cpu = {"kind": "metal", "memory": "64GiB", "cpu": 32}
    config = {
        "slipway:target": "metal",
        "slipway:network": {"cidr": "10.60.0.0/16"},
        "slipway:ssh": {"known_hosts": "known_hosts"},
        "slipway:servers": SERVERS,
        "slipway:server_hosts": servers,
        "slipway:inventory": "hosts.yaml",
        "slipway:pools": {"cpu": cpu, "edge": cpu | {"hosts": edge}},
        "slipway:models": {"sim": {"pool": "cpu", "replicas": {"min": 1, "max": 2}}},
    }
    (root / "Pulumi.scale.yaml").write_text(yaml.safe_dump({"config": config}))
    (root / "hosts.yaml").write_text(yaml.safe_dump({"hosts": listed}))
    (root / "models").mkdir()
    (root / "models/sim.yaml").write_text(yaml.safe_dump({"name": "sim", "engine": ENGINE}))
    keys = [f"{host['address']} {KEY}\n" for host in (*listed, *servers, *edge)]
    (root / "known_hosts").write_text("".join(keys))


if __name__ == "__main__":
    sys.exit(main())
