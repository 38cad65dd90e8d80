"""The weights step as a process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hang import HANG_S
from replica_process import SERVICE

DIRECTORY = "weights/tiny-0123456789ab"


class Step:
    """Runs weights.py with a runtime folder of its own. `prefix` goes before its command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = folder / "runtime"
        self.result = self.runtime / DIRECTORY
        self.prefix: list[str] = []
        self.environment = {**os.environ, "SLIPWAY_RUNTIME": str(self.runtime)}

    def start(self, content: dict[str, Any]) -> subprocess.Popen[str]:
        document = self.folder / "weights.json"
        document.write_text(json.dumps({"directory": DIRECTORY, **content}))
        program = [sys.executable, str(SERVICE / "weights.py"), "--document", str(document)]
        return subprocess.Popen(
            [*self.prefix, *program],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, content: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Exit code and events."""
        process = self.start(content)
        output, _ = process.communicate(timeout=HANG_S)
        return process.returncode, [json.loads(line) for line in output.splitlines()]

    def leftovers(self) -> list[str]:
        return [path.name for path in self.result.parent.glob(".*.partial")]


def phases(events: list[dict[str, Any]]) -> list[str]:
    """The phases in their order; a slow phase reports its progress several times."""
    reported = (event["phase"] for event in events if event["event"] == "progress")
    return [phase for phase, _ in itertools.groupby(reported)]
