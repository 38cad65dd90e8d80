"""What a machine with NVIDIA's accelerators shows to the device plugin, as a markdown table.

    .venv/bin/python bench/accelerator.py [--image IMAGE] [--devices-only]

Starts the plugin as Nomad does, and compares what it announces with what nvidia-smi shows: devices,
models, memory, driver; says which events of faults the driver tells, and whether the machine would
be fit as a host. Then serves a small model on its first device, bare, and with --image in a
container of an image that Docker has here, with its runtime nvidia. Exits with 1 if anything
differs. Devices take under a minute; the first model waits for an environment of 6 GB.
"""

from __future__ import annotations

import argparse
import itertools
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
from slipway.config.artifacts import REQUIREMENTS  # noqa: E402
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", help="its name or ID, in the layout of Triton's stock image")
    parser.add_argument("--devices-only", action="store_true", help="no model")
    arguments = parser.parse_args()
    job = EnvironmentJob(
        name="devices-test", requirements=ROOT / "services/devices/requirements-test.txt"
    )
    python = prepare([job], default_cache())["devices-test"] / "bin/python"
    before = loop_factor()
    print("| what | found | as nvidia-smi shows it |\n|---|---|---|")
    differs = False
    rows = itertools.chain(of_the_plugin(python), of_the_host(python))
    if not arguments.devices_only:
        rows = itertools.chain(rows, of_replicas(arguments.image))
    for row in rows:
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


def of_replicas(image: str | None) -> Iterator[Row]:
    """A small model on the first device, in each runtime."""
    asked = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    device = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    service = ROOT / "services/triton_vllm"
    jobs = [
        EnvironmentJob(name="triton_vllm-test", requirements=service / "requirements-test.txt"),
        EnvironmentJob(name="vllm_cuda", requirements=ROOT / REQUIREMENTS["vllm_cuda"]),
    ]
    made = prepare(jobs, default_cache())
    python, vllm = made["triton_vllm-test"] / "bin/python", made["vllm_cuda"]
    folders = {"SLIPWAY_RUNTIME": str(default_cache()), "SLIPWAY_ENV_VLLM": str(vllm)}
    program = "accelerator_replica"
    yield from _rows(python, "triton_vllm", program, ["bare", device, str(vllm)], **folders)
    if image is not None:
        yield from _rows(python, "triton_vllm", program, ["container", device, image], **folders)


def _rows(
    python: Path, service: str, program: str, arguments: list[str], **variables: str
) -> Iterator[Row]:
    """What the program of bench/in_services says with the service's own code."""
    support = [ROOT / "services" / service, ROOT / "services" / service / "tests"]
    support.append(ROOT / "services/testing")
    done = subprocess.run(
        [python, ROOT / f"bench/in_services/{program}.py", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **variables, "PYTHONPATH": ":".join(map(str, support))},
    )
    for line in done.stdout.splitlines():
        yield Row(**json.loads(line))
    if done.returncode:
        yield Row(what=program, found=f"ended with {done.returncode}", verdict="no")


if __name__ == "__main__":
    sys.exit(main())
