"""`up` interrupted in each phase, by each signal, and the next `up`, as a markdown table.

    .venv/bin/python bench/interruptions.py [--only TEXT]

Uses an environment of its own (a copy of this checkout, 127.79.0.0/24, one simulated model) with a
cache of its own: hard links to the warm one, parts of which a row may remove. It is down before
each row. About 10 minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.machine import loop_factor, measured_on  # noqa: E402
from tests.live.environments import (  # noqa: E402
    SMALL_MODELS,
    Platform,
    copy_tree,
    write_environment,
)
from tests.live.interruptions import PHASES, interrupt_up  # noqa: E402
from toolchain.settings import default_cache  # noqa: E402

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
HEADINGS = ("`up` was", "signal", "exit code", "next `up`", "no changes after it")
ENVIRONMENTS = ("node-", "xds-", "engine_sim-", "envoy-", "root-", "uv-")  # not the real engine's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only phases whose name contains this")
    options = parser.parse_args()

    with own_platform() as platform:
        before = loop_factor()
        print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
        for phase in PHASES:
            for number in SIGNALS:
                if options.only in phase:
                    print("| " + " | ".join(row(platform, phase, number)) + " |", flush=True)
        print(f"\n{measured_on(before)}")


def row(platform: Platform, phase: str, number: signal.Signals) -> tuple[str, ...]:
    """AssertionError if the phase was missed, or the next `up` does not complete."""
    platform.down()
    make_work_for(phase, platform)
    code = interrupt_up(platform, PHASES[phase], number)
    report = platform.up()
    assert all(model["ready"] for model in report["models"].values())
    again = platform.slipway("preview", "--expect-no-changes", check=False)
    unchanged = "yes" if again.returncode == 0 else "no"
    return (phase, number.name, str(code), f"{report['seconds']:.1f} s", unchanged)


def make_work_for(phase: str, platform: Platform) -> None:
    """Prepares what the phase needs; most have work to do in an environment that is down."""
    if phase == "tools":
        for environment in (own_cache(platform) / "envs").glob("xds-*"):
            shutil.rmtree(environment)
    elif phase == "restarting agents":
        platform.up()
        platform.slipway("stop")


@contextmanager
def own_platform() -> Iterator[Platform]:
    with (
        tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder,
        # Beside the warm one: hard links cannot cross file systems.
        tempfile.TemporaryDirectory(prefix="bench-", dir=default_cache()) as cache,
    ):
        checkout = Path(folder)
        copy_tree(checkout)
        write_environment(checkout, "live2", network="127.79.0", models=SMALL_MODELS, nodes=1)
        link_cache(default_cache(), Path(cache))
        variables = {**os.environ, "SLIPWAY_CACHE": cache}
        platform = Platform(
            checkout=checkout, name="live2", network="127.79.0", variables=variables
        )
        try:
            yield platform
        finally:
            platform.down()


def link_cache(warm: Path, own: Path) -> None:
    environments = (warm / "envs").iterdir()
    used = [each for each in environments if each.is_dir() and each.name.startswith(ENVIRONMENTS)]
    for part in (warm / "tools", warm / "bundles", *used):
        target = own / part.relative_to(warm)
        shutil.copytree(part, target, symlinks=True, copy_function=os.link)


def own_cache(platform: Platform) -> Path:
    return Path((platform.environ or {})["SLIPWAY_CACHE"])


if __name__ == "__main__":
    main()
