"""`slipway admit` ends as the update ends that it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.commands import admit
from cli.lifecycle.protocol import Report


@pytest.mark.parametrize(("ready", "code"), [(True, 0), (False, 1)])
def test_it_fails_while_a_host_has_not_joined(
    monkeypatch: pytest.MonkeyPatch, ready: bool, code: int
) -> None:
    asked = list[str]()

    def admitted(host: str) -> Report:
        asked.append(host)
        return Report(document={}, ready=ready)

    monkeypatch.setattr(admit, "find", lambda _: SimpleNamespace(name="hosts"))
    monkeypatch.setattr(admit, "hosts_of", lambda *_: SimpleNamespace(admit=admitted))
    assert CliRunner().invoke(app, ["admit", "worker-1", "-s", "hosts"]).exit_code == code
    assert asked == ["worker-1"]
