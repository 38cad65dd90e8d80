"""What runs on the operator's machine asks through the forwards; hosts do not know them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets.metal import TARGET
from tests.components.platform_plan import TOOLS
from tests.components.recording import record
from tests.unit.plan.samples import hosts_inputs

ON_OPERATORS_MACHINE, ON_HOST = "command:local:Command", "command:remote:Command"


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    """Of Pulumi.hosts.yaml with the second gossip key, which a program of the operator brings."""
    made = make_plan(hosts_inputs(security={"gossip_key": 2}))
    assert made.ssh is not None
    keys = {
        name: replace(host, host_key="ssh-ed25519 AAAAC3Nz")
        for name, host in made.ssh.hosts.items()
    }
    return replace(made, ssh=replace(made.ssh, hosts=keys), tools=TOOLS)


@pytest.fixture(scope="module")
def platform(plan: PlatformPlan) -> Recording:
    return record(lambda: Platform("platform", plan, TARGET) and None)


def test_no_program_of_the_operators_machine_asks_a_server_at_its_own_address(
    plan: PlatformPlan, platform: Recording
) -> None:
    documents = {
        program.name: program.inputs["environment"]["SLIPWAY_DOCUMENT"]
        for program in platform.of_type(ON_OPERATORS_MACHINE)
        if "environment" in program.inputs
    }
    servers = [api.authority for api in (plan.consul, plan.nomad)]
    assert [n for n, text in documents.items() if any(server in text for server in servers)] == []
    seen = [api.authority for api in (plan.operator.consul, plan.operator.nomad)]
    asking = {name for name, text in documents.items() if any(each in text for each in seen)}
    assert asking >= {
        "consul-acl", "nomad-acl", "nomad-workloads", "consul-gossip-key", "nomad-gossip-key",
        "pool-cpu-ready", "admission-worker-0", "routes-acknowledged",
    }  # fmt: skip


def test_both_providers_ask_through_the_forwards(plan: PlatformPlan, platform: Recording) -> None:
    providers = {each.name: each.inputs for each in platform.of_type("pulumi:providers:")}
    assert providers["nomad"]["address"] == plan.operator.nomad.url
    assert providers["consul"]["address"] == plan.operator.consul.url


def test_no_host_and_no_job_knows_an_address_of_the_operators_machine(
    plan: PlatformPlan, platform: Recording
) -> None:
    here = plan.operator.consul.host
    found = [*platform.of_type(ON_HOST), *platform.of_type("nomad:")]
    assert found
    assert [each.name for each in found if here in json.dumps(each.inputs, default=str)] == []
