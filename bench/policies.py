"""The time that the policies add to a preview, as a markdown table.

    .venv/bin/python bench/policies.py [--runs 5] [--models 0]

Previews dev in a copy of this checkout (nothing runs, `--refresh=false`), alternately with and
without the pack; with --models, also an environment of that many simulated models. Then judges the
same resources offline. Exits with 1 over the bar, which is for dev.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from cli.environment import Environment, find  # noqa: E402
from cli.lifecycle.local.backend import own_pulumi, prepare_stack  # noqa: E402
from cli.pulumi.plugins import prepare_plugins  # noqa: E402
from cli.pulumi.policy_pack import policy_arguments  # noqa: E402
from tests.live.environments import SIMULATED_ENGINE, copy_tree  # noqa: E402

BAR_S = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--models", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="slipway-policies-"))
    try:
        copy_tree(folder)
        (folder / ".venv").symlink_to(sys.prefix)
        added = measure(find("dev", checkout=folder), options.runs)
        if options.models:
            write_environment(folder, options.models)
            measure(find("scale", checkout=folder), 1)
    finally:
        shutil.rmtree(folder)
    return int(added > BAR_S)


def measure(environment: Environment, runs: int) -> float:
    """Prints a table; returns the seconds that the pack adds to the median."""
    before = loop_factor()
    environment.make_pulumi_folders()
    prepare_plugins(environment)
    prepare_stack(own_pulumi(environment))
    pack = policy_arguments(environment, None)
    preview(environment, pack)  # compiles modules that were never imported
    plain, judged = [], []
    for _ in range(runs):
        plain.append(seconds(lambda: preview(environment, [])))
        judged.append(seconds(lambda: preview(environment, pack)))
    document = offline(environment)
    check = [seconds(lambda: judge(environment, document)) for _ in range(runs)]
    added = statistics.median(judged) - statistics.median(plain)
    print(f"{measured_on(before)}, {runs} runs\n")
    resources = len(json.loads(document)["resources"])
    print(f"| {environment.name}, {resources} resources | measured | bar |")
    print("|---|---|---|")
    print(f"| preview without policies | {spread(plain)} | |")
    print(f"| preview with policies | {spread(judged)} | |")
    print(f"| added, of the medians | {added:.2f} s | {BAR_S:.0f} s |")
    print(f"| policies/check.py on the offline preview | {spread(check)} | |\n")
    return added


def preview(environment: Environment, arguments: list[str]) -> None:
    pulumi = own_pulumi(environment)
    command = pulumi._command("preview", "--stack", environment.name, "--refresh=false", *arguments)
    run(command, environment, variables=dict(pulumi.variables))


def offline(environment: Environment) -> bytes:
    command = [sys.executable, "-m", "cli", "preview", "-s", environment.name]
    paths = [environment.checkout / "src", environment.checkout]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return run([*command, "--offline", "--json"], environment, variables=variables)


def judge(environment: Environment, document: bytes) -> None:
    folder = environment.checkout / "policies"
    python = folder / ".venv" / "bin" / "python"
    command = [str(python), str(folder / "check.py"), "--environment", "dev"]
    run(command, environment, given=document)


def run(
    command: list[str],
    environment: Environment,
    *,
    variables: dict[str, str] | None = None,
    given: bytes = b"",
) -> bytes:
    done = subprocess.run(
        command,
        check=False,
        cwd=environment.checkout,
        env=variables,
        input=given,
        capture_output=True,
    )
    if done.returncode:
        sys.exit((done.stdout + done.stderr).decode())
    return done.stdout


def write_environment(checkout: Path, count: int) -> None:
    """Pulumi.scale.yaml with as many simulated models as this machine has memory for."""
    config: dict[str, Any] = {
        "slipway:target": "dev",
        "slipway:network": {"cidr": "127.100.0.0/24"},
        "slipway:pools": {
            "cpu": {"kind": "local", "nodes": 1, "cpu": 16},
            "edge": {"kind": "local", "nodes": 1, "memory": "2GiB"},
        },
        "slipway:models": {},
        "slipway:models_dir": "models-of-the-bench",
    }
    (checkout / "models-of-the-bench").mkdir()
    for index in range(count):
        name = f"model-{index:04}"
        config["slipway:models"][name] = {"pool": "cpu", "replicas": {"min": 1, "max": 1}}
        model = {"name": name, "engine": SIMULATED_ENGINE}
        (checkout / "models-of-the-bench" / f"{name}.yaml").write_text(yaml.safe_dump(model))
    (checkout / "Pulumi.scale.yaml").write_text(yaml.safe_dump({"config": config}))
    settings = checkout / "policies" / "settings.yaml"
    settings.write_text(settings.read_text().replace("[dev,", "[dev, scale,"))


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
