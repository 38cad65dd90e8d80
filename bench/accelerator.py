"""What a machine with NVIDIA's accelerators shows to the device plugin, as a markdown table.

    .venv/bin/python bench/accelerator.py

Starts the plugin as Nomad does, and compares what it announces with what nvidia-smi shows: devices,
models, memory, driver; says which events of faults the driver tells, and whether the machine would
be fit as a host. Changes nothing. Exits with 1 if anything differs. Under a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from slipway.config.catalog import load_catalog  # noqa: E402
from slipway.planner.engines.vllm.release import LEAST_DRIVERS  # noqa: E402
from toolchain.prepare import EnvironmentJob, prepare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402


@dataclass(frozen=True)
class Row:
    what: str
    found: str
    verdict: str  # "" where there is nothing to compare with


def main() -> int:
    job = EnvironmentJob(
        name="devices-test", requirements=ROOT / "services/devices/requirements-test.txt"
    )
    python = prepare([job], default_cache())["devices-test"] / "bin/python"
    before = loop_factor()
    print("| what | found | as nvidia-smi shows it |\n|---|---|---|")
    differs = False
    for row in (*of_the_plugin(python), *of_the_host(python)):
        print(f"| {row.what} | {row.found} | {row.verdict} |", flush=True)
        differs |= row.verdict.startswith("no")
    print(f"\n{measured_on(before)}")
    return int(differs)


def of_the_plugin(python: Path) -> Iterator[Row]:
    return _rows(python, "devices", "accelerator_plugin", [])


def of_the_host(python: Path) -> Iterator[Row]:
    """Whether it would be fit as a host of a pool of its own devices."""
    known = [
        {"names": list(each.reported_as), "memory_mib": each.memory_mib}
        for each in load_catalog(ROOT).accelerators.values()
    ]
    return _rows(
        python, "operator", "accelerator_host", [json.dumps(known), LEAST_DRIVERS["nvidia"]]
    )


def _rows(python: Path, service: str, program: str, arguments: list[str]) -> Iterator[Row]:
    """What the program of bench/in_services says with the service's own code."""
    support = [ROOT / "services" / service, ROOT / "services" / service / "tests"]
    done = subprocess.run(
        [python, ROOT / f"bench/in_services/{program}.py", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ":".join(map(str, support))},
    )
    for line in done.stdout.splitlines():
        yield Row(**json.loads(line))
    if done.returncode:
        yield Row(what=program, found=f"ended with {done.returncode}", verdict="no")


if __name__ == "__main__":
    sys.exit(main())
