"""The time of the Pulumi program for an environment of many models, as a markdown table.

    .venv/bin/python bench/preview_scale.py [--models 1000]

Writes the files of such an environment into a temporary folder and does what a preview does with
them: reads and checks them, plans, renders every document, and registers every resource with a
recording monitor instead of an engine. Needs no tools and no network. Exits with 1 over a bar.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from slipway.config.artifacts import read_artifacts  # noqa: E402
from slipway.config.catalog import load_catalog  # noqa: E402
from slipway.config.files import deployed_models, load_environment, load_models  # noqa: E402
from slipway.config.machine import MachineFacts  # noqa: E402
from slipway.config.ssh import read_host_keys  # noqa: E402
from slipway.inputs import PlanInputs  # noqa: E402
from slipway.plan.platform import PlatformPlan  # noqa: E402
from stacks.planning import make_plan  # noqa: E402
from stacks.platform import Platform  # noqa: E402
from stacks.recording import Recording, Registration, record  # noqa: E402
from stacks.targets import load  # noqa: E402

BAR_S = 12.0
BAR_MB = 400.0
POOLS, NODES_PER_POOL = 8, 16  # the most nodes a local pool has
GIB = 1 << 30
MACHINE = MachineFacts(cpu_cores=64, memory_bytes=4096 * GIB)
ENGINE = {"kind": "sim", "architecture": "llama-3.1-8b", "profile": "h100-fp8-llama-3.1-8b"}


@dataclass
class Stopwatch:
    """Phases by name, in seconds; the first began when the process did."""

    phases: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=lambda: time.time() - since_start_s())

    def lap(self, phase: str) -> None:
        now = time.time()
        self.phases[phase] = now - self.began
        self.began = now


def since_start_s() -> float:
    """How long this process has run. psutil would be up to a second off: it adds ticks since boot
    to a boot time in whole seconds."""
    start_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


class Names(Recording):
    """Keeps only the names of registered resources: the program's memory is measured."""

    def __init__(self) -> None:
        super().__init__()
        self.registered: list[str] = []

    def add(self, found: Registration) -> None:
        self.registered.append(found.name)


def main() -> int:
    stopwatch = Stopwatch()
    stopwatch.lap("start of Python, imports")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    count: int = parser.parse_args().models
    before = loop_factor()

    names = Names()
    run(lambda root: write_environment(root, count), stopwatch, into=names)
    what = f"{count} models, {len(names.registered)} resources"
    print(f"{measured_on(before)}\n")
    return report(what, stopwatch, bar_s=BAR_S, bar_mb=BAR_MB)


def run(write: Callable[[Path], None], stopwatch: Stopwatch, *, into: Recording) -> None:
    """Does what a preview does with the environment `scale` that `write` puts into a folder."""
    folder = Path(tempfile.mkdtemp(prefix="slipway-scale-"))
    try:
        write(folder)
        stopwatch.began = time.time()  # the user wrote the files
        inputs = read(folder)
    finally:
        shutil.rmtree(folder)
    stopwatch.lap("read and check the files")
    plan = make_plan(inputs)
    stopwatch.lap("plan")
    register(plan, into)
    stopwatch.lap("render and register")


def write_environment(root: Path, count: int) -> None:
    """Pulumi.scale.yaml and a file for each model."""
    pools = {f"cpu{index}": {"kind": "local", "nodes": NODES_PER_POOL} for index in range(POOLS)}
    names = [f"model-{index:04}" for index in range(count)]
    config = {
        "slipway:target": "dev",
        "slipway:network": {"cidr": "127.100.0.0/24"},
        "slipway:pools": {**pools, "edge": {"kind": "local", "nodes": 1, "memory": "2GiB"}},
        "slipway:models": {
            name: {"pool": f"cpu{index % POOLS}", "replicas": {"min": 1, "max": 2}}
            for index, name in enumerate(names)
        },
    }
    (root / "Pulumi.scale.yaml").write_text(yaml.safe_dump({"config": config}))
    (root / "models").mkdir()
    for name in names:
        model = {"name": name, "aliases": [f"{name}-alias"], "engine": ENGINE}
        (root / "models" / f"{name}.yaml").write_text(yaml.safe_dump(model))


def read(root: Path) -> PlanInputs:
    environment = load_environment(root, "scale")
    return PlanInputs(
        environment=environment,
        models=deployed_models(environment, load_models(root, "models")),
        catalog=load_catalog(ROOT),
        artifacts=read_artifacts(ROOT),
        machine=MACHINE,
        host_keys=read_host_keys(root / "known_hosts"),
    )


def register(plan: PlatformPlan, into: Recording) -> None:
    """Runs the program on mocks as a preview."""
    gc.freeze()  # as __main__.py does
    gc.set_threshold(200_000, 50, 100)

    def program() -> None:
        Platform("platform", plan, load(plan.target))

    record(program, stack="scale", into=into)


def report(what: str, stopwatch: Stopwatch, *, bar_s: float, bar_mb: float) -> int:
    seconds = sum(stopwatch.phases.values())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"| {what} | measured | bar |\n|---|---|---|")
    for phase, duration in stopwatch.phases.items():
        print(f"| {phase} | {duration:.1f} s | |")
    print(f"| the whole program | {seconds:.1f} s | {bar_s:.0f} s |")
    print(f"| peak RSS | {megabytes:.0f} MB | {bar_mb:.0f} MB |")
    return int(seconds > bar_s or megabytes > bar_mb)


if __name__ == "__main__":
    sys.exit(main())
