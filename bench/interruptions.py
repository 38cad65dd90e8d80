"""`up` interrupted in each phase by SIGINT and by SIGKILL, and the next `up`, as a markdown table.

    .venv/bin/python bench/interruptions.py

An environment of its own (a copy of this checkout, 127.79.0.0/24, one simulated model), down
before each row. About 5 minutes on two cores.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.live.environments import (  # noqa: E402
    SMALL_MODELS,
    Platform,
    copy_tree,
    write_environment,
)
from tests.live.interruptions import PHASES, interrupt_up  # noqa: E402

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="slipway-bench-"))
    copy_tree(folder)
    write_environment(folder, "live2", network="127.79.0", models=SMALL_MODELS, nodes=1)
    platform = Platform(checkout=folder, name="live2", network="127.79.0")
    print(
        "| `up` was | signal | exit code | next `up` | no changes after it |\n|---|---|---|---|---|"
    )
    try:
        for phase, pattern in PHASES.items():
            for number in SIGNALS:
                platform.slipway("down", "--yes", check=False)
                code = interrupt_up(platform, pattern, number)
                report = platform.up()
                assert all(model["ready"] for model in report["models"].values())
                again = platform.slipway("preview", "--expect-no-changes", check=False)
                same = "yes" if again.returncode == 0 else "no"
                cells = (phase, number.name, str(code), f"{report['seconds']:.1f} s", same)
                print("| " + " | ".join(cells) + " |", flush=True)
    finally:
        platform.down()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
