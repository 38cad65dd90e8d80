"""Which hosts are in trouble, what is said of them, and which command mends it."""

from __future__ import annotations

from typing import Any

import pytest

from cli.hosts.troubles import HERE, MACHINES, Trouble, troubles


def row(consul: str | None, nomad: str | None, **changes: Any) -> dict[str, Any]:
    """Of worker-1, by the words of the clusters; None for one that does not answer."""
    states = {
        name: state and {"state": state, "version": ""}
        for name, state in (("consul", consul), ("nomad", nomad))
    }
    known = {"name": "worker-1", "in_file": True, "takes_work": "yes", "unhealthy_devices": {}}
    return {**known, "fabric": None, **states, **changes}


def trouble_of(found: dict[str, Any], fixes: Any = MACHINES) -> Trouble | None:
    return next(iter(troubles("prod", [found], fixes)), None)


@pytest.mark.parametrize(
    "found",
    [
        row("alive", "ready"),
        row("alive", "alive", takes_work=None),  # a server
        row("alive", "initializing"),
        row(None, "ready"),
        row(None, None, takes_work=None),
        row("failed", "down", in_file=False),
    ],
)
def test_who_is_well_or_leaving_or_cannot_be_seen_is_not_named(found: dict[str, Any]) -> None:
    assert trouble_of(found) is None


@pytest.mark.parametrize(
    ("found", "what", "fix"),
    [
        (row("failed", "down"), "is down: neither Consul nor Nomad hears it", "forget worker-1"),
        (row("left", "down"), "is down: neither Consul nor Nomad hears it", "forget worker-1"),
        (row("failed", "disconnected"), "is down: neither Consul", "power it on"),
        (row("failed", "failed"), "is down: neither Consul nor Nomad", "forget worker-1"),
        (row("failed", "not joined"), "is down: neither Consul nor Nomad", "forget worker-1"),
        (row(None, "down"), "is down: Nomad does not hear it", "forget worker-1 -s prod --yes"),
        (row("failed", None), "is down: Consul does not hear it", "replace-a-host.md"),
        (row("not joined", "not joined"), "has not joined: neither", "admit worker-1 -s prod"),
        (row(None, "not joined"), "has not joined: Nomad does not", "admit worker-1 -s prod"),
        (row("alive", "down"), "only in part: Nomad does not hear it", "logs worker-1 nomad"),
        (row("failed", "ready"), "only in part: Consul does not hear", "logs worker-1 consul"),
        (row("alive", "not joined"), "only in part: Nomad does not hear", "logs worker-1 nomad"),
    ],
)
def test_a_host_that_the_platform_does_without_is_named_with_the_command_that_mends_it(
    found: dict[str, Any], what: str, fix: str
) -> None:
    trouble = trouble_of(found)
    assert trouble is not None
    assert what in trouble.what
    assert fix in trouble.fix
    assert trouble.absent


@pytest.mark.parametrize(
    ("takes_work", "what"), [("no", "was drained"), ("draining", "is being drained")]
)
def test_a_host_whose_work_an_operator_has_taken_away_is_named_and_not_absent(
    takes_work: str, what: str
) -> None:
    trouble = trouble_of(row("alive", "ready", takes_work=takes_work))
    assert trouble is not None
    assert (trouble.absent, trouble.what.startswith(what)) == (False, True)
    assert trouble.fix == "slipway return worker-1 -s prod gives it work again"


@pytest.mark.parametrize(
    ("takes_members", "what"),
    [
        (False, "takes no members of groups until the check of its fabric passes: eth0: is down"),
        (True, "has a gap in the check of its fabric, and takes members of groups: eth0: is down"),
    ],
)
def test_a_host_whose_fabric_did_not_pass_is_named_with_the_reason_and_not_absent(
    takes_members: bool, what: str
) -> None:
    fabric = {"takes_members": takes_members, "reason": "eth0: is down", "fix": "look at the cable"}
    trouble = trouble_of(row("alive", "ready", fabric=fabric))
    assert trouble is not None
    assert (trouble.absent, trouble.what) == (False, what)
    assert trouble.fix == "look at the cable; slipway check worker-1 -s prod checks it again"


@pytest.mark.parametrize("states", [("failed", "down"), ("alive", "down")])
def test_what_runs_on_this_machine_is_started_again(states: tuple[str, str]) -> None:
    trouble = trouble_of(row(*states), HERE)
    assert trouble is not None
    assert trouble.fix == "slipway start -s prod brings it back"


def test_a_device_with_a_fault_is_named_with_its_reason_and_what_to_do() -> None:
    faults = {"GPU-1": "XID 79: it has fallen off the bus; boot the host again", "GPU-2": "lost: …"}
    trouble = trouble_of(row("alive", "ready", unhealthy_devices=faults))
    assert trouble is not None
    assert "GPU-1: XID 79: it has fallen off the bus" in trouble.what
    assert trouble.what.endswith("and 1 more")
    assert "slipway return worker-1 -s prod" in trouble.fix
    assert not trouble.absent
