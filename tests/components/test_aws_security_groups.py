"""The security groups of an environment on AWS: what the platform needs, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from components.aws_network.security_groups import (
    ALL,
    ENDPOINTS,
    GATEWAY,
    HOSTS,
    NODES,
    SERVERS,
    WAY_IN,
    Connection,
    connections,
    fabric_group,
)
from components.consul import agent_config as consul_agents
from components.nomad.agent_config import RPC_PORT
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.components.test_devices import WITH_AGENTS
from tests.unit.planner.fleets import H100, L4, fleet, model_file
from tests.unit.planner.test_aws_plan import CLOUD, EDGE

DYNAMIC = (20000, 31999)


def planned(*models: Any, models_at: str = "l4", **changes: Any) -> PlatformPlan:
    pools = {"edge": EDGE, "l4": L4, "h100": {**H100, "zone": "us-east-1a"}}
    inputs = fleet(
        *models,
        pools=pools,
        deployments={"chat": {"pools": [models_at], "replicas": {"min": 1, "max": 2}}},
        servers=3,
        aws={**CLOUD, **changes},
        ssh={"known_hosts": "known_hosts"},
    )
    return make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS))


def of(plan: PlatformPlan) -> tuple[Connection, ...]:
    assert plan.aws is not None
    return connections(plan, plan.aws)


def allowed(found: tuple[Connection, ...], source: str, target: str, port: int) -> bool:
    return any(
        (each.source, each.target, each.protocol) == (source, target, "tcp")
        and each.first_port <= port <= each.last_port
        for each in found
    )


def test_every_agent_reaches_the_servers_that_its_configuration_names() -> None:
    plan = planned()
    found, server = of(plan), plan.servers[0]
    agent = consul_agents.server_agent(plan, server).configuration
    assert agent["ports"]["serf_wan"] == agent["ports"]["dns"] == -1  # no others to open
    for source in HOSTS:
        for port in (8300, RPC_PORT, plan.consul.port, plan.nomad.port):
            assert allowed(found, source, SERVERS, port), (source, port)
        for target in HOSTS:
            gossip = {e.protocol for e in found if (e.source, e.target) == (source, target)}
            assert gossip >= {"tcp", "udp"}
            assert allowed(found, source, target, 8301)


def test_the_gateway_reaches_replicas_and_all_that_prometheus_reads() -> None:
    plan = planned()
    found = of(plan)
    for port in (*DYNAMIC, 9400, plan.consul.port, plan.nomad.port):
        assert allowed(found, GATEWAY, NODES, port), port
    (envoy, *_), monitoring = plan.gateway.envoys, plan.monitoring
    doors = (envoy.metrics, envoy.xds_http, monitoring.prometheus, plan.autoscaling.autoscaler)
    assert all(allowed(found, GATEWAY, GATEWAY, door.port) for door in doors)


def test_nodes_reach_servers_gossip_and_introducers_but_no_other_node_and_no_envoy() -> None:
    found = of(planned())
    targets = {
        (each.target, each.first_port)
        for each in found
        if each.source == NODES and each.target not in (SERVERS, ENDPOINTS)
    }
    introducers = (GATEWAY, 4650)
    assert targets == {introducers, *((group, 8301) for group in (NODES, GATEWAY))}


def test_ssh_is_open_to_the_way_in_alone_and_on_fixed_hosts_alone() -> None:
    found = of(planned())
    assert {(each.source, each.target) for each in found if each.first_port == 22} == {
        (WAY_IN, SERVERS),
        (WAY_IN, GATEWAY),
    }
    assert {each.first_port for each in found if each.source == WAY_IN} == {22}


@pytest.mark.parametrize(("pool", "at"), [("l4", NODES), ("edge", GATEWAY)])
def test_replicas_are_reached_where_their_pools_are_and_nowhere_else(pool: str, at: str) -> None:
    small = model_file("llama-3.2-1b", load=None, slo={})
    found = of(planned(small, models_at=pool))
    reached = {target for target in HOSTS if allowed(found, GATEWAY, target, DYNAMIC[0])}
    assert reached == {at}


def test_the_fabric_of_a_pool_is_a_group_of_its_own() -> None:
    found = [each for each in of(planned()) if each.protocol == ALL]
    (fabric,) = found
    assert (fabric.source, fabric.target) == (fabric_group("h100"), fabric_group("h100"))


@pytest.mark.parametrize(("egress", "asked"), [("endpoints", set(HOSTS)), ("nat", set())])
def test_hosts_ask_aws_through_endpoints_or_nat(egress: str, asked: set[str]) -> None:
    found = of(planned(egress=egress))
    assert {each.source for each in found if each.target == ENDPOINTS} == asked


def test_each_pair_of_groups_and_ports_is_there_once_with_a_reason_that_aws_takes() -> None:
    found = of(planned())
    keys = [(e.source, e.target, e.protocol, e.first_port, e.last_port) for e in found]
    assert len({*keys}) == len(keys)
    assert all(0 < len(each.reason) <= 255 for each in found)
    # EC2 API, AuthorizeSecurityGroupIngress: a-z, A-Z, 0-9, spaces, and ._-:/()#,@[]+=&;{}!$*
    allowed_characters = set("._-:/()#,@[]+=&;{}!$* ")
    assert all(c.isalnum() or c in allowed_characters for each in found for c in each.reason)
