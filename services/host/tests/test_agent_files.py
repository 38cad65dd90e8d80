"""The agents on disk, while hosts come and go beside this one."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from host.agent_files import agents_on_disk
from host.document import Agent
from program.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Two hosts with an agent each."""
    folders = Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)
    for host in ("cpu-0", "cpu-1"):
        agent = Agent(
            host=host,
            name="consul",
            stage=2,
            command=("consul",),
            ready_url="http://127.0.0.1:1/",
            ready_timeout_s=1,
            stop_timeout_s=1,
        )
        folder = folders.agent(host, agent.name)
        folder.mkdir(parents=True)
        (folder / "program.json").write_text(json.dumps(dataclasses.asdict(agent)))
    return folders


@pytest.mark.parametrize("moment", ["cpu-0", "program.json"])
def test_a_host_that_is_removed_while_agents_are_listed_is_left_out(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    leaving = folders.nodes / "cpu-0"
    read, scan = Path.read_text, os.scandir

    def removed_before(path: Path) -> None:
        if path.name == moment and path.is_relative_to(leaving):
            shutil.rmtree(leaving, ignore_errors=True)

    def read_text(path: Path, *options: Any) -> str:
        removed_before(path)
        return read(path, *options)

    def scandir(path: Any = ".") -> Any:
        if not isinstance(path, int):  # rmtree's own
            removed_before(Path(path))
        return scan(path)

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(os, "scandir", scandir)
    assert [agent.host for agent in agents_on_disk(folders)] == ["cpu-1"]
