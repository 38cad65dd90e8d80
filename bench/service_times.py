"""How fast the services are where it matters, as a markdown table with bars.

    .venv/bin/python bench/service_times.py [--only TEXT]

Tests assert what the services do, these rows how fast: each service runs alone, with the support of
its tests, in its own environment (bench/in_services). The rows of dead hosts need root, for network
namespaces. About three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from toolchain.prepare import EnvironmentJob, prepare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

SERVICES = ("xds", "triton_vllm", "engine_sim")
HEADINGS = ("service", "what", "measured", "bar")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only services whose name contains this")
    options = parser.parse_args()
    chosen = [name for name in SERVICES if options.only in name]
    environments = prepare(
        [
            EnvironmentJob(
                name=f"{name}-test", requirements=ROOT / f"services/{name}/requirements-test.txt"
            )
            for name in chosen
        ],
        default_cache(),
    )
    before, missed = loop_factor(), 0
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for name in chosen:
        program = ROOT / f"bench/in_services/{name}.py"
        for row in rows(program, name, environments[f"{name}-test"]):
            print(f"| {name} | {row['what']} | {row['measured']} | {row['bar']} |", flush=True)
            missed += not row["met"]
    print(f"\n{measured_on(before)}")
    return int(missed > 0)


def rows(program: Path, service: str, environment: Path) -> list[dict[str, str | bool]]:
    """What a program measured that uses the service's code and the support of its tests."""
    support = [ROOT / f"services/{service}/tests", ROOT / f"services/{service}"]
    support += [ROOT / "services/testing", ROOT / "bench/in_services"]
    if service == "triton_vllm":
        support.append(ROOT / "services/triton_vllm/backend")
    # At the end, as in the tests: the folder of xds must not hide the package of that name.
    first = "import sys, runpy; sys.path.pop(0); sys.path += sys.argv[2:]; "
    run = "runpy.run_path(sys.argv[1], run_name='__main__')"
    output = subprocess.run(
        [environment / "bin/python", "-c", first + run, program, *support],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    ).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"what"')]


if __name__ == "__main__":
    sys.exit(main())
