"""Users of agents: which are made, and which are deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from host import accounts

CONSUL, NOMAD = "slipway-consul", "slipway-nomad"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The users of a host, whose units are files in tmp_path."""
    users: set[str] = set()

    def run(program: str, *options: str) -> str:
        change = users.add if program == "useradd" else users.remove
        change(options[-1])
        return ""

    monkeypatch.setattr(accounts, "UNITS", tmp_path)
    monkeypatch.setattr(accounts, "succeed", run)
    monkeypatch.setattr(accounts, "_exists", lambda user: user in users)
    return users


def test_users_that_are_missing_are_made_and_deleted(host: set[str]) -> None:
    missing = accounts.not_found([CONSUL, NOMAD, CONSUL, "root"])
    assert missing == [CONSUL, NOMAD]
    accounts.make(missing)
    assert host == {CONSUL, NOMAD}
    accounts.delete(missing)
    assert host == set()


def test_a_user_that_was_there_before_is_not_ours_to_delete(host: set[str]) -> None:
    host.add(CONSUL)
    assert accounts.not_found([CONSUL, NOMAD]) == [NOMAD]


def test_a_user_goes_with_the_last_environment_that_has_it(host: set[str], tmp_path: Path) -> None:
    accounts.make([CONSUL])
    unit = tmp_path / "slipway-other-consul.service"
    unit.write_text(f"[Service]\nUser={CONSUL}\n")
    assert accounts.not_found([CONSUL]) == [CONSUL], "whichever environment goes last deletes it"
    accounts.delete([CONSUL])
    assert host == {CONSUL}
    unit.unlink()
    accounts.delete([CONSUL])
    assert host == set()
