"""How each host is reached: what the environment says of all, and what a host says of itself."""

from __future__ import annotations

import dataclasses
from typing import Any

from slipway.plan.platform import SshPlan
from slipway.planner.supply.ssh import plan_ssh
from slipway.planner.supply.supplies import plan_hosts
from tests.unit.plan.samples import hosts_inputs

SSH = {"known_hosts": "known_hosts", "user": "admin", "key": "key"}
ED25519, OTHER = "ssh-ed25519 AAAAC3Nz", "ssh-ed25519 BBBBC3Nz"


def planned(worker_ssh: dict[str, Any], keys: dict[str, str] | None = None) -> SshPlan:
    worker = {"name": "worker-0", "address": "10.77.0.21", "ssh": worker_ssh}
    shape = {"kind": "metal", "memory": "16GiB", "cpu": 8}
    edge = {"name": "edge-0", "address": "10.77.0.31"}
    pools = {"cpu": shape | {"hosts": [worker]}, "edge": shape | {"hosts": [edge]}}
    inputs = dataclasses.replace(hosts_inputs(ssh=SSH, pools=pools), host_keys=keys or {})
    plan = plan_ssh(inputs, plan_hosts(inputs).listed)
    assert plan is not None
    return plan


def test_a_hosts_own_user_and_port_come_before_those_of_all() -> None:
    hosts = planned({"user": "ops", "port": 2222}).hosts
    assert (hosts["worker-0"].user, hosts["worker-0"].port) == ("ops", 2222)
    assert (hosts["edge-0"].user, hosts["edge-0"].port) == ("admin", 22)
    assert planned({"port": 2222}).hosts["worker-0"].user == "admin"


def test_the_agent_gets_the_key_of_all_and_those_of_single_hosts_once_each() -> None:
    assert planned({}).keys == ("key",)
    assert planned({"key": "other"}).keys == ("key", "other")
    assert planned({"key": "key"}).keys == ("key",)


def test_a_public_key_is_known_by_the_address_or_as_openssh_writes_it_with_a_port() -> None:
    both = {"10.77.0.21": ED25519, "[10.77.0.21]:2222": OTHER}
    assert planned({"port": 2222}, both).hosts["worker-0"].host_key == OTHER
    assert planned({"port": 2222}, {"10.77.0.21": ED25519}).hosts["worker-0"].host_key == ED25519
    assert planned({}, both).hosts["worker-0"].host_key == ED25519
    assert planned({}, {"[10.77.0.21]:2222": OTHER}).hosts["worker-0"].host_key == ""
