"""Whether an agent can be used yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hangs import HANG_S
from host import probe
from host.document import Agent
from host.probe import not_ready
from program.folders import Folders


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_TIMEOUT_S", HANG_S)


def test_an_agent_that_hangs_up_while_it_starts_is_not_ready_yet(
    answering: Callable[[bytes], str], tmp_path: Path
) -> None:
    folders = Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)
    url = answering(b"nonsense\r\n\r\n")
    assert "nonsense" in (not_ready(folders, agent_at(url)) or "")


def test_an_agent_without_its_certificate_is_not_ready(tmp_path: Path) -> None:
    folders = Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)
    missing = not_ready(folders, agent_at("https://127.0.0.1:1/"))
    assert "the certificate in" in (missing or "")


def agent_at(ready_url: str) -> Agent:
    return Agent(
        host="cpu-0",
        name="consul",
        stage=1,
        command=(),
        ready_url=ready_url,
        ready_timeout_s=1,
        stop_timeout_s=1,
    )
