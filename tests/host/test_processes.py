"""The processes of an environment, and where they listen."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import pytest

from tests.host.conftest import Environment

pytestmark = pytest.mark.live
testinfra_hosts = ["local://"]

# Parts of vLLM that communicate over ports of 127.0.0.1 that torch chooses.
ENGINE_INTERNAL = ("API server", "engine core", "worker", "stub", "resource tracker")


def listening(environment: Environment) -> Iterator[tuple[str, str, int]]:
    """(kind of process, address, port) of every listening TCP and bound UDP socket."""
    for process, kind in environment.processes().items():
        try:
            connections = process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        for connection in connections:
            is_server = connection.status == psutil.CONN_LISTEN or not connection.raddr
            if is_server and connection.laddr:
                yield kind, _plain(connection.laddr.ip), connection.laddr.port


def _plain(address: str) -> str:
    """gRPC binds IPv4 addresses through IPv6 sockets."""
    return address.removeprefix("::ffff:")


@pytest.fixture(scope="module")
def sockets(environment: Environment) -> list[tuple[str, str, int]]:
    return list(listening(environment))


def test_every_process_belongs_to_who_ran_up(environment: Environment) -> None:
    users = {}
    for process, kind in environment.processes().items():
        try:
            users[kind] = process.uids()
        except psutil.NoSuchProcess:
            continue
    assert any("nomad" in kind for kind in users)
    assert {uids.real for uids in users.values()} == {os.getuid()}
    assert {uids.effective for uids in users.values()} == {os.getuid()}


def test_nothing_listens_beyond_this_machine(sockets: list[tuple[str, str, int]]) -> None:
    exposed = [socket for socket in sockets if not ipaddress.ip_address(socket[1]).is_loopback]
    assert exposed == []


def test_everything_listens_on_an_address_of_the_environment(
    environment: Environment, sockets: list[tuple[str, str, int]]
) -> None:
    """127.0.0.1 belongs to the machine: two environments would collide there."""
    strangers = [
        socket
        for socket in sockets
        if socket[1] not in environment.addresses
        and not any(part in socket[0] for part in ENGINE_INTERNAL)
    ]
    assert strangers == []


def expected_listeners(environment: Environment) -> Iterator[tuple[str, int]]:
    plan = environment.plan
    for server in plan["servers"]:
        for port in (8300, 8301, 8501, 4645, 4646, 4647, 4648):
            yield server["address"], port
    for node in environment.nodes:
        for port in (8301, 8501, 4646):
            yield node["address"], port
    for envoy in plan["gateway"]["envoys"]:
        for part in ("listener", "metrics", "xds", "xds_http"):
            yield address_of(envoy[part])
    yield address_of(plan["monitoring"]["prometheus"])
    yield address_of(plan["autoscaling"]["autoscaler"])
    yield address_of(plan["node_agent"]["supervisor"])


def address_of(endpoint: Mapping[str, Any]) -> tuple[str, int]:
    return endpoint["host"], endpoint["port"]


def test_every_agent_and_the_gateway_listen_where_the_plan_says(
    environment: Environment, sockets: list[tuple[str, str, int]]
) -> None:
    assert set(expected_listeners(environment)) - {socket[1:] for socket in sockets} == set()


def test_replicas_listen_inside_the_port_range_of_their_node(
    environment: Environment, sockets: list[tuple[str, str, int]]
) -> None:
    ranges = {
        node["address"]: range(node["min_dynamic_port"], node["max_dynamic_port"] + 1)
        for node in environment.nodes
    }
    known = dict.fromkeys(expected_listeners(environment))
    others = [socket for socket in sockets if socket[1] in ranges and socket[1:] not in known]
    assert others, "no replica listens"
    assert [socket for socket in others if socket[2] not in ranges[socket[1]]] == []


def test_the_operators_tools_see_the_listeners_too(host: Any, environment: Environment) -> None:
    (envoy,) = environment.plan["gateway"]["envoys"]
    for part in ("listener", "metrics"):
        address, port = address_of(envoy[part])
        assert host.addr(address).port(port).is_reachable


def test_every_host_runs_its_two_agents_once(environment: Environment) -> None:
    kinds = list(environment.processes().values())
    for host in (*environment.plan["servers"], *environment.nodes):
        for agent in ("consul", "nomad"):
            assert kinds.count(f"{agent} on {host['name']}") == 1
