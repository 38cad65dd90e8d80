"""What an `up` may do to servers that were started before."""

from __future__ import annotations

import dataclasses

import pytest

from slipway.cli.applied import record
from slipway.cli.environment import Environment
from slipway.cli.errors import CliError
from slipway.cli.platform import agents
from tests.unit.plan.samples import dev_plan


def _was_started(environment: Environment) -> None:
    folder = environment.run / "supervisor"
    folder.mkdir(parents=True)
    (folder / "endpoint.json").write_text("{}")


def test_servers_that_were_started_stay_where_they_are(environment: Environment) -> None:
    plan = dev_plan()
    server = dataclasses.replace(plan.servers[0], address="127.200.0.2")
    moved = dataclasses.replace(plan, servers=(server,))
    environment.make_folders()
    before = record(environment, plan)
    agents.must_stay(environment, before, moved)  # nothing was started there yet
    _was_started(environment)
    agents.must_stay(environment, before, plan)
    with pytest.raises(CliError, match=r"slipway:network.*127\.200\.0\.2") as refused:
        agents.must_stay(environment, before, moved)
    assert refused.value.exit_code == 2


def test_nothing_was_started_where_nothing_was_recorded(environment: Environment) -> None:
    _was_started(environment)
    agents.must_stay(environment, None, dev_plan())
