"""Agents: which program starts and stops them, and what `up` may do to running servers."""

from __future__ import annotations

import dataclasses
import sys
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from cli.applied import from_document, record
from cli.environment import Environment
from cli.errors import CliError
from cli.lifecycle.local import agents
from slipway.plan.platform import PlatformPlan
from tests.unit.cli.documents import plan_document
from tests.unit.plan.samples import dev_plan

PROGRAM = "import os, sys; print(sys.argv[1], os.environ['SLIPWAY_RUN']); sys.exit({code})"


def put_node_program(folder: Path, code: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agents.py").write_text(PROGRAM.format(code=code))


def test_agents_are_started_by_the_program_that_was_applied(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    applied = from_document(plan_document())
    put_node_program(environment.checkout / "services" / "host", code=1)
    put_node_program(environment.cache / "bundles" / applied.node_bundle, code=0)
    agents.start(environment, applied)
    assert f"start {environment.run}" in capsys.readouterr().err


def test_an_up_that_was_interrupted_before_its_first_agent_has_nothing_to_start(
    environment: Environment,
) -> None:
    folder = environment.run / "supervisor"
    folder.mkdir(parents=True)
    assert not agents.has_agents(environment)
    (folder / "endpoint.json").write_text("{}")
    assert agents.has_agents(environment)


def test_agents_are_stopped_without_a_cache_and_without_a_record(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_node_program(environment.checkout / "services" / "host", code=0)
    agents.stop(environment, None)
    agents.stop(environment, from_document(plan_document()))
    assert capsys.readouterr().err.count("stop ") == 2


def test_agents_that_do_not_start_are_a_failure_of_the_machine(environment: Environment) -> None:
    put_node_program(environment.checkout / "services" / "host", code=1)
    with pytest.raises(CliError, match="did not start") as failed:
        agents.start(environment, None)
    assert failed.value.exit_code == 1


def test_this_interpreter_serves_where_the_cache_has_none(environment: Environment) -> None:
    assert agents._python(environment, None) == Path(sys.executable)


def _was_started(environment: Environment) -> None:
    folder = environment.run / "supervisor"
    folder.mkdir(parents=True)
    (folder / "endpoint.json").write_text("{}")


def test_servers_that_were_started_stay_where_they_are(environment: Environment) -> None:
    plan = dev_plan()
    server = dataclasses.replace(plan.servers[0], address="127.200.0.2")
    moved = dataclasses.replace(plan, servers=(server,), nomad=plan.nomad.at(server.address))
    environment.make_folders()
    before = record(environment, plan)
    agents.must_stay(environment, before, moved)  # where nothing has been started
    _was_started(environment)
    agents.must_stay(environment, before, plan)
    with pytest.raises(CliError, match=r"slipway:network.*127\.200\.0\.2") as refused:
        agents.must_stay(environment, before, moved)
    assert refused.value.exit_code == 2


def test_an_environment_without_tls_is_not_changed_in_place(environment: Environment) -> None:
    plan = dev_plan()
    nomad = dataclasses.replace(plan.nomad, scheme="http", ca="")
    operator = dataclasses.replace(plan.operator, nomad=nomad)
    plain = dataclasses.replace(plan, nomad=nomad, operator=operator)
    environment.make_folders()
    before = record(environment, plain)
    _was_started(environment)
    with pytest.raises(CliError, match="Consul and Nomad speak without TLS") as refused:
        agents.must_stay(environment, before, plan)
    assert refused.value.exit_code == 2
    name = environment.name
    assert refused.value.fix == f"slipway down -s {name}, then slipway up -s {name}"


def test_running_servers_are_not_removed(environment: Environment) -> None:
    plan = dev_plan()
    more = [
        *plan.servers,
        dataclasses.replace(plan.servers[0], name="server-1", address="127.77.0.2"),
        dataclasses.replace(plan.servers[0], name="server-2", address="127.77.0.3"),
    ]
    three = dataclasses.replace(plan, servers=tuple(more))
    environment.make_folders()
    before = record(environment, three)
    _was_started(environment)
    agents.must_stay(environment, before, three)
    with pytest.raises(CliError, match=r"slipway:servers would take 2 of 3 servers") as refused:
        agents.must_stay(environment, before, plan)
    assert refused.value.exit_code == 2
    agents.must_stay(environment, record(environment, plan), three)


def test_nothing_was_started_where_nothing_was_recorded(environment: Environment) -> None:
    _was_started(environment)
    agents.must_stay(environment, None, dev_plan())


def _edited(plan: PlatformPlan, **hosts: tuple[str, int] | None) -> PlatformPlan:
    """Pools by their new name and the difference of their addresses; None removes one."""
    pools = []
    for pool in plan.pools:
        if (change := hosts.get(pool.name, (pool.name, 0))) is None:
            continue
        name, offset = change
        nodes = tuple(
            dataclasses.replace(
                node,
                name=f"{name}-{k}",
                pool=name,
                address=str(IPv4Address(node.address) + offset),
            )
            for k, node in enumerate(pool.hosts)
        )
        pools.append(dataclasses.replace(pool, name=name, hosts=nodes))
    return dataclasses.replace(plan, pools=tuple(pools))


@pytest.mark.parametrize(
    ("change", "new", "old"),
    [
        ({"cpu": ("batch", 0)}, "batch", "cpu"),  # renamed
        ({"cpu": None, "edge": ("batch", -16)}, "batch", "cpu"),  # a freed slot is used again
        ({"cpu": ("cpu", 16), "edge": ("edge", -16)}, "cpu", "edge"),  # exchanged
    ],
)
def test_no_node_starts_where_another_one_still_runs(
    environment: Environment, change: dict[str, tuple[str, int] | None], new: str, old: str
) -> None:
    plan = dev_plan()
    environment.make_folders()
    before = record(environment, plan)
    edited = _edited(plan, **change)
    agents.must_stay(environment, before, edited)  # where nothing has been started
    _was_started(environment)
    with pytest.raises(CliError) as refused:
        agents.must_stay(environment, before, edited)
    assert refused.value.exit_code == 2
    slot = 2 if old == "edge" else 1
    assert f"slipway:pools.{new} would start {new}-0 at" in refused.value.message
    assert f"(slot {slot}) while {old}-0 of pools.{old} still runs" in refused.value.message
    assert f"give pools.{new} another slot" in refused.value.fix
    assert f"remove pools.{old} first with one slipway up -s dev" in refused.value.fix


def test_pools_may_be_removed_and_take_free_slots(environment: Environment) -> None:
    plan = dev_plan()
    environment.make_folders()
    before = record(environment, plan)
    _was_started(environment)
    changes: list[dict[str, tuple[str, int] | None]] = [
        {},
        {"cpu": None},
        {"cpu": ("batch", 32)},
        {"cpu": ("cpu", 32)},
    ]
    for change in changes:
        agents.must_stay(environment, before, _edited(plan, **change))
    fewer = record(environment, _edited(plan, cpu=None))
    agents.must_stay(environment, fewer, _edited(plan, cpu=("batch", 0)))
