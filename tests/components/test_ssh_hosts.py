"""Hosts over SSH: what is brought to each, where programs run, and what reaches which host."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

import jsonschema
import pulumi
import pytest

from components.base import SlipwayComponent
from components.hosts.delivery import delivery_document
from components.hosts.program import HostProgram
from components.hosts.ssh import SshHosts, must_list_machines
from slipway.plan.platform import NodeRange, PlatformPlan, SshHost, SshPlan
from stacks.recording import Recording
from tests.components.platform_plan import platform_plan
from tests.components.recording import record

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/delivery.schema.json").read_text())
KEY = "ssh-ed25519 AAAAC3Nz"
ROOT = {"port": 22, "user": "root"}
DEFAULTS = {"dialErrorLimit": 10, "perDialTimeout": 15}  # of the SDK
REMOTE, LOCAL = "command:remote:Command", "command:local:Command"


def reached(address: str, key: str = KEY) -> SshHost:
    return SshHost(address=address, port=22, user="root", host_key=key)


def over_ssh(jump: SshHost | None = None, key: str = KEY) -> PlatformPlan:
    plan = platform_plan()
    nodes = [node for pool in plan.pools for node in pool.hosts]
    hosts = {host.name: reached(host.address, key) for host in (*plan.servers, *nodes)}
    return dataclasses.replace(
        plan, ssh=SshPlan(hosts=hosts, jump=jump, keys=(), known_hosts="known_hosts")
    )


def ran(plan: PlatformPlan, *on: str) -> Recording:
    """One run of a program on each host ("" is the operator's machine)."""

    def build() -> None:
        parent, hosts = SlipwayComponent("Platform", "platform", {}), SshHosts(plan)
        for number, host in enumerate(on):
            program = HostProgram(
                bundle="host-1",
                script="agents.py",
                document={"host": host, "it's": "quoted"},
                secrets=pulumi.Output.secret("a secret"),
                timeout_s=60,
            )
            hosts.run(program, f"run-{number}", parent, on=host)

    return record(build)


def test_a_program_of_a_host_runs_there_after_what_it_needs_was_brought() -> None:
    recording = ran(over_ssh(), "cpu-0", "cpu-0", "cpu-1", "")
    assert {found.name for found in recording.of_type(REMOTE)} == {"run-0", "run-1", "run-2"}
    assert {found.name for found in recording.of_type(LOCAL)} == {
        "delivery-cpu-0",
        "delivery-cpu-1",
        "run-3",
    }
    assert recording["run-1"].depends_on == {"delivery-cpu-0"}
    assert recording["run-2"].depends_on == {"delivery-cpu-1"}


def test_a_host_is_reached_by_its_address_with_its_key_pinned_and_without_a_private_key() -> None:
    connection = ran(over_ssh(), "cpu-0")["run-0"].inputs["connection"]["value"]
    address = next(node.address for pool in platform_plan().pools for node in pool.hosts)
    assert connection == {"host": address, "hostKey": KEY, **ROOT, **DEFAULTS}


def test_a_jump_host_is_pinned_too() -> None:
    recording = ran(over_ssh(jump=reached("203.0.113.7")), "cpu-0")
    proxy = recording["run-0"].inputs["connection"]["value"]["proxy"]
    assert proxy == {"host": "203.0.113.7", "hostKey": KEY, **ROOT, **DEFAULTS}


def test_the_document_is_part_of_the_command_and_the_secrets_are_not() -> None:
    found = ran(over_ssh(), "cpu-0")["run-0"]
    words = shlex.split(found.text("create"))
    variables = dict(word.split("=", 1) for word in words if word.startswith("SLIPWAY_"))
    assert json.loads(variables["SLIPWAY_DOCUMENT"]) == {"host": "cpu-0", "it's": "quoted"}
    assert variables["SLIPWAY_RUN"] == "/var/lib/slipway/dev"
    assert words[-3:] == ["/usr/bin/python3", "/opt/slipway/bundles/host-1/agents.py", "apply"]
    assert found.text("delete").endswith(" remove")
    assert found.is_secret("stdin")
    assert "a secret" not in found.text("create")
    assert "environment" not in found.inputs  # SSH servers accept no variables by default


@pytest.mark.parametrize("host", ["server-0", "cpu-0", "edge-0"])
def test_a_delivery_follows_its_schema(host: str) -> None:
    plan = over_ssh()
    assert plan.ssh is not None
    jsonschema.validate(delivery_document(plan, plan.ssh, host), SCHEMA)


def artifacts(host: str) -> list[str]:
    plan = over_ssh()
    assert plan.ssh is not None
    found: list[str] = delivery_document(plan, plan.ssh, host)["artifacts"]
    return found


def kinds(host: str) -> set[str]:
    return {name.rpartition("/")[2].rpartition("-")[0] for name in artifacts(host)}


def test_a_server_gets_its_agents_and_nothing_of_models_or_the_gateway() -> None:
    assert kinds("server-0") == {"consul", "nomad", "host", "node"}


def test_a_node_gets_what_its_pools_models_run_from() -> None:
    assert {"consul", "nomad", "host", "node", "triton_vllm", "vllm", "engine_sim"} <= kinds(
        "cpu-0"
    )
    assert "envoy" not in kinds("cpu-0")
    assert [name for name in artifacts("cpu-0") if name.startswith("weights/smollm2-")]


def test_a_node_of_the_gateways_pool_gets_the_platforms_jobs() -> None:
    assert {"envoy", "prometheus", "nomad-autoscaler", "xds"} <= kinds("edge-0")
    assert "vllm" not in kinds("edge-0")


def refusal(plan: PlatformPlan) -> str:
    with pytest.raises(pulumi.RunError) as refused:
        SshHosts(plan)
    return str(refused.value)


def uncounted(plan: PlatformPlan) -> str:
    with pytest.raises(pulumi.RunError) as refused:
        must_list_machines(plan)
    return str(refused.value)


def test_hosts_whose_keys_are_not_known_are_named_with_how_to_get_them() -> None:
    said = refusal(over_ssh(key=""))
    assert "known_hosts has no public key of 127.77.0.1, 127.77.0.16" in said
    assert "fix: ssh-keyscan -t ed25519 127.77.0.1 127.77.0.16" in said


def test_a_host_with_another_port_is_asked_for_its_key_there() -> None:
    plan = over_ssh()
    assert plan.ssh is not None
    other = dataclasses.replace(plan.ssh.hosts["cpu-0"], port=2222, host_key="")
    hosts = {**plan.ssh.hosts, "cpu-0": other}
    said = refusal(dataclasses.replace(plan, ssh=dataclasses.replace(plan.ssh, hosts=hosts)))
    assert f"fix: ssh-keyscan -p 2222 -t ed25519 {other.address} >> known_hosts, and" in said


def test_a_program_reaches_each_host_with_its_own_user_and_port() -> None:
    plan = over_ssh()
    assert plan.ssh is not None
    other = dataclasses.replace(plan.ssh.hosts["cpu-0"], port=2222, user="ops")
    hosts = {**plan.ssh.hosts, "cpu-0": other}
    recorded = ran(
        dataclasses.replace(plan, ssh=dataclasses.replace(plan.ssh, hosts=hosts)), "cpu-0", "cpu-1"
    )
    own, standard = (recorded[run].inputs["connection"]["value"] for run in ("run-0", "run-1"))
    assert (own["user"], own["port"]) == ("ops", 2222)
    assert (standard["user"], standard["port"]) == ("root", 22)


def test_an_environment_that_does_not_say_how_hosts_are_reached_is_refused() -> None:
    assert "slipway:ssh is missing" in refusal(platform_plan())


def test_machines_that_are_only_counted_cannot_be_reached() -> None:
    plan = over_ssh()
    servers = tuple(dataclasses.replace(each, address="") for each in plan.servers)
    said = uncounted(dataclasses.replace(plan, servers=servers))
    assert "slipway:server_hosts is missing" in said
    pool = dataclasses.replace(plan.pools[0], hosts=(), range=NodeRange(min=1, max=1))
    said = uncounted(dataclasses.replace(plan, pools=(pool, *plan.pools[1:])))
    assert f"slipway:pools.{pool.name}.hosts is missing" in said


def test_a_host_with_a_shared_address_must_have_keepalived() -> None:
    plan = over_ssh()
    assert plan.ssh is not None
    gateway = dataclasses.replace(plan.gateway, shared_address="127.77.0.99")
    shared = dataclasses.replace(plan, gateway=gateway)
    document = delivery_document(shared, plan.ssh, "edge-0")
    jsonschema.validate(document, SCHEMA)
    assert document["packages"] == {"keepalived": "/usr/sbin/keepalived"}
    assert "keepalived" not in delivery_document(shared, plan.ssh, "cpu-0").get("packages", {})
    assert "packages" not in delivery_document(plan, plan.ssh, "edge-0")


def test_a_host_that_runs_triton_must_have_the_library_of_its_python() -> None:
    plan = over_ssh()
    assert plan.ssh is not None
    document = delivery_document(plan, plan.ssh, "cpu-0")
    jsonschema.validate(document, SCHEMA)
    assert [*document["packages"]] == ["libpython3.11"]
    simulated = [
        dataclasses.replace(
            model, replica=dataclasses.replace(model.replica, environments={"engine_sim": "e"})
        )
        for model in plan.models
    ]
    without = dataclasses.replace(plan, models=tuple(simulated))
    assert "packages" not in delivery_document(without, plan.ssh, "cpu-0")
