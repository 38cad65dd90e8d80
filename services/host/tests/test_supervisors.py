"""Which supervisor an environment has, and that it does not change under running agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from host.document import Endpoint, Unit, Units
from host.supervisor import RECORD
from host.supervisord import Supervisord
from host.supervisors import supervisor_of
from host.systemd import Systemd
from program.errors import HostError
from program.folders import Folders

SUPERVISORD = {"address": "127.0.0.1", "port": 9001}
UNIT = {"user": "slipway-consul", "after": [], "runs_tasks": False, "limits": {}}
SYSTEMD = {"kind": "systemd", "agents": {"consul": UNIT}, "users": ["slipway-consul"]}


def folders(run: Path, record: dict[str, Any]) -> Folders:
    (run / "supervisor").mkdir()
    (run / "supervisor" / RECORD).write_text(json.dumps(record))
    return Folders(run=run, cache=run, scratch=run)


def test_an_environment_has_the_supervisor_that_it_was_set_up_with(tmp_path: Path) -> None:
    assert supervisor_of(Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)) is None
    one, other = tmp_path / "one", tmp_path / "other"
    for run in (one, other):
        run.mkdir()
    supervisord = supervisor_of(folders(one, SUPERVISORD))
    assert isinstance(supervisord, Supervisord)
    assert supervisord.endpoint == Endpoint(address="127.0.0.1", port=9001)
    systemd = supervisor_of(folders(other, SYSTEMD))
    assert isinstance(systemd, Systemd)
    assert systemd.units == {"consul": Unit(user="slipway-consul")}


def test_agents_under_supervisord_are_not_taken_over_by_systemd(tmp_path: Path) -> None:
    supervisor = Systemd(folders(tmp_path, SUPERVISORD), Units({}))
    with pytest.raises(HostError, match="slipway down"):
        supervisor.ensure_running()
    assert json.loads((tmp_path / "supervisor" / RECORD).read_text()) == SUPERVISORD


def test_agents_under_systemd_are_not_taken_over_by_supervisord(tmp_path: Path) -> None:
    supervisor = Supervisord(folders(tmp_path, SYSTEMD), Endpoint(address="127.0.0.1", port=9001))
    with pytest.raises(HostError, match="slipway down"):
        supervisor.ensure_running()
    assert json.loads((tmp_path / "supervisor" / RECORD).read_text()) == SYSTEMD
