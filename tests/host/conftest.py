"""The machine that a running environment uses.

The tests only look, and do not need root. SLIPWAY_TEST_RUN=<checkout>/.slipway/<environment>
chooses an environment that is already up; otherwise they share the platform of tests/live.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.processes import processes_of

SECRET_LENGTH = 16  # shorter values in a secrets file are not secrets: true, "slipway"


@dataclass(frozen=True)
class Environment:
    """One environment on disk and in the process table."""

    run: Path  # <checkout>/.slipway/<environment>

    @cached_property
    def plan(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.run / "plan.json").read_text())
        return document

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return [node for pool in self.plan["pools"] for node in pool["hosts"]]

    @property
    def addresses(self) -> set[str]:
        return {host["address"] for host in (*self.plan["servers"], *self.nodes)}

    @property
    def scratch(self) -> Path:
        configuration = self.run / "nodes" / self.nodes[0]["name"] / "nomad" / "config.json"
        return Path(json.loads(configuration.read_text())["client"]["meta"]["scratch"])

    def processes(self) -> dict[psutil.Process, str]:
        """Living processes, and the kind of each."""
        found = {}
        for process in processes_of(self.run):
            try:
                found[psutil.Process(process.pid)] = process.kind
            except psutil.NoSuchProcess:
                continue
        return found

    def secrets(self) -> dict[str, str]:
        """The origin of each secret -> the secret, which must not be anywhere else."""
        return dict(self._secrets())

    def _secrets(self) -> Iterator[tuple[str, str]]:
        files = [*self.run.glob("tokens/*"), self.run / "supervisor/password"]
        # A workload's own token; an ordinary user's Nomad has these on disk, root's on tmpfs.
        files += self.run.glob("nodes/*/nomad/data/alloc/*/*/secrets/*_token")
        for path in files:
            yield str(path.relative_to(self.run)), path.read_text().strip()
        for path in self.run.glob("nodes/*/*/secrets.json"):
            for value in _strings(json.loads(path.read_text())):
                yield str(path.relative_to(self.run)), value


def _strings(document: Any) -> Iterator[str]:
    if isinstance(document, Mapping):
        for value in document.values():
            yield from _strings(value)
    elif isinstance(document, str) and len(document) >= SECRET_LENGTH:
        yield document


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest) -> Environment:
    chosen = os.environ.get("SLIPWAY_TEST_RUN")
    return Environment(Path(chosen) if chosen else request.getfixturevalue("platform").run)
