"""This checkout against an earlier revision of it, in alternating pairs, as a markdown table.

    .venv/bin/python bench/against.py [--from REVISION] [--pairs 5] [--bar QUANTITY=RATIO ...]
                                      [--only commands|plan|environment|program]

Each side has a folder and a network namespace of its own, so that both `dev` environments can run
at once: the speed of a machine may change within a minute, and so `up` and `preview` without a
change alternate between the sides, three times per pair, and the short `plan` twenty times. Then,
once per pair and one side at a time: a warm `up`, the memory of its processes, and the program of a
thousand models. Takes about three minutes per pair, or half a minute for `plan` or the thousand
models alone, which need no environment; ends with nothing running. Exits with 1 over a bar. For
root, because of the namespaces.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.environment import memory_by_part  # noqa: E402
from bench.pairs import Measurement, add_arguments, compare, program_of  # noqa: E402
from bench.revisions import BEFORE_ONE_PLAN, extract  # noqa: E402
from tests.live.environments import copy_tree  # noqa: E402

THOUSAND_MODELS = ("bench/preview_scale.py", "--models", "1000")
MIB = 1 << 20
QUANTITIES = {
    "warm": "warm `up`, to the answer, s",
    "up": "`up` without a change, s",
    "preview": "`preview` without a change, s",
    "plan": "`plan`, s",
    "memory": "memory of all but the engines, MiB",
    "program": "1,000 models: the whole program, s",
    "peak": "1,000 models: peak RSS, MB",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", default=BEFORE_ONE_PLAN)
    parser.add_argument("--only", choices=MEASUREMENTS, help="leave out the other measurements")
    add_arguments(parser, QUANTITIES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slw-") as folder:
        before, now = Path(folder, "before"), Path(folder, "now")
        extract(options.revision, before)
        copy_tree(now)
        names = [options.only] if options.only else MEASUREMENTS
        measurements = [each for name in names for each in MEASUREMENTS[name]]
        if options.only in WITHOUT_ENVIRONMENT:
            for side in (before, now):  # makes .venv
                subprocess.run([side / "slipway", "plan"], check=True, capture_output=True)
            return compare(options, before, now, measurements, QUANTITIES)
        with running(before), running(now):
            return compare(options, before, now, measurements, QUANTITIES)


@contextmanager
def running(side: Path) -> Iterator[None]:
    """Its environment, in a network namespace, until the end. What its caches lack is downloaded
    first, because the namespace leads nowhere."""
    for command in (["up"], ["down", "--yes"]):
        subprocess.run([side / "slipway", *command], check=True)
    subprocess.run(["ip", "netns", "add", namespace(side)], check=True)
    try:
        subprocess.run([*inside(side), "ip", "link", "set", "lo", "up"], check=True)
        slipway(side, "up")
        yield
    finally:
        subprocess.run([*inside(side), side / "slipway", "down", "--yes"], check=False)
        subprocess.run(["ip", "netns", "delete", namespace(side)], check=True)


def alone(side: Path) -> dict[str, float]:
    """A warm `up` and the memory of its processes, while the other side is down."""
    for each in side.parent.iterdir():
        slipway(each, "down", "--yes")
    warm_s = float(json.loads(slipway(side, "up", "--json").splitlines()[-1])["seconds"])
    memory = memory_by_part(side / ".slipway" / "dev")
    others = sum(size for part, size in memory.items() if part != "engines") / MIB
    return {"warm": warm_s, "memory": others}


MEASUREMENTS = {
    "commands": (
        Measurement(of=lambda side: {"up": seconds(slipway, side, "up")}, per_pair=3),
        Measurement(
            of=lambda side: {"preview": seconds(slipway, side, "preview", "--expect-no-changes")},
            per_pair=3,
        ),
    ),
    "plan": (Measurement(of=lambda side: {"plan": seconds(output, side, "plan")}, per_pair=20),),
    "environment": (Measurement(of=alone),),
    "program": (Measurement(of=lambda side: program_of(side, *THOUSAND_MODELS)),),
}
WITHOUT_ENVIRONMENT = {"plan", "program"}


def namespace(side: Path) -> str:
    return f"{side.parent.name}-{side.name}"


def inside(side: Path) -> list[str]:
    """What begins a command in the side's namespace. `ip netns exec` would hide from `down` what
    the environment has mounted."""
    return ["nsenter", f"--net=/run/netns/{namespace(side)}"]


def slipway(side: Path, *arguments: str) -> str:
    """The output of a command in the side's namespace."""
    return output(side, *arguments, within=inside(side))


def output(side: Path, *arguments: str, within: Sequence[str] = ()) -> str:
    command = [*within, str(side / "slipway"), *arguments]
    done = subprocess.run(command, cwd=side, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def seconds(run: Callable[..., str], side: Path, *arguments: str) -> float:
    started = time.monotonic()
    run(side, *arguments)
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
