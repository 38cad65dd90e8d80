"""What the state of a unit means for an agent."""

from __future__ import annotations

import time

import pytest
from host import systemctl
from host.systemctl import AT_ONCE_S, GIVEN_UP_AFTER, state_of


def shown(monkeypatch: pytest.MonkeyPatch, **properties: str | int) -> None:
    found = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "MainPID": 7,
        "NRestarts": 0,
        "ExecMainStartTimestampMonotonic": 0,
        "ExecMainExitTimestampMonotonic": 0,
        **properties,
    }
    text = "\n".join(f"{name}={value}" for name, value in found.items())
    monkeypatch.setattr(systemctl, "systemctl", lambda *_: text)


def test_an_agent_that_runs_has_a_process_and_an_uptime(monkeypatch: pytest.MonkeyPatch) -> None:
    started_us = int((time.monotonic() - 90) * 1e6)
    shown(monkeypatch, ExecMainStartTimestampMonotonic=started_us)
    state = state_of("slipway-dev-consul.service")
    assert state is not None
    assert (state.name, state.pid, state.runs) == ("RUNNING", 7, True)
    assert state.uptime_s in (90, 91)


@pytest.mark.parametrize(
    ("active", "name", "runs", "ended"),
    [
        ("reloading", "RUNNING", True, False),
        ("activating", "STARTING", True, False),
        ("deactivating", "STOPPING", False, False),
        ("inactive", "STOPPED", False, True),
        ("failed", "STOPPED", False, True),
    ],
)
def test_every_state_of_a_unit_has_a_name(
    monkeypatch: pytest.MonkeyPatch, active: str, name: str, runs: bool, ended: bool
) -> None:
    shown(monkeypatch, ActiveState=active, SubState="")
    state = state_of("slipway-dev-consul.service")
    assert state is not None
    assert (state.name, state.runs, state.ended) == (name, runs, ended)


def test_a_unit_that_does_not_exist_is_an_agent_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown(monkeypatch, LoadState="not-found", ActiveState="inactive")
    assert state_of("slipway-dev-consul.service") is None


@pytest.mark.parametrize(
    ("restarts", "ran_s", "ended"),
    [
        (GIVEN_UP_AFTER, AT_ONCE_S / 2, True),
        (GIVEN_UP_AFTER - 1, AT_ONCE_S / 2, False),
        (GIVEN_UP_AFTER, AT_ONCE_S * 2, False),
    ],
)
def test_an_agent_that_keeps_ending_at_once_needs_help(
    monkeypatch: pytest.MonkeyPatch, restarts: int, ran_s: float, ended: bool
) -> None:
    shown(
        monkeypatch,
        ActiveState="activating",
        SubState="auto-restart",
        NRestarts=restarts,
        ExecMainStartTimestampMonotonic=1_000_000,
        ExecMainExitTimestampMonotonic=int(1_000_000 + ran_s * 1e6),
    )
    state = state_of("slipway-dev-consul.service")
    assert state is not None
    assert (state.ended, state.runs) == (ended, not ended)
