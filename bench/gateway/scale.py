"""How the gateway holds up with many models, Envoys, changes and streams, as a table with bars.

    .venv/bin/python bench/gateway/scale.py [--only TEXT]

The control plane's own parts and a real Envoy, with the support of services/xds's tests, in its
environment (bench/in_services/gateway_scale.py). About six minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from bench.service_times import rows  # noqa: E402
from toolchain.prepare import EnvironmentJob, prepare  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

PROGRAM = ROOT / "bench/in_services/gateway_scale.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only the part whose name contains this")
    options = parser.parse_args()
    requirements = ROOT / "services/xds/requirements-test.txt"
    made = prepare([EnvironmentJob(name="xds-test", requirements=requirements)], default_cache())
    before = loop_factor()
    os.environ["SCALE_ONLY"] = options.only
    found = rows(PROGRAM, "xds", made["xds-test"])
    print("| what | measured | bar |\n|---|---|---|")
    for row in found:
        print(f"| {row['what']} | {row['measured']} | {row['bar']} |")
    print(f"\n{measured_on(before)}")
    return int(not all(row["met"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
