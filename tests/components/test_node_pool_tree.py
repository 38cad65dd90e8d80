"""The clusters and the pools as resources: their tree, their order, and their secrets."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pulumi
import pytest

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, CertificateAuthorityArgs
from components.consul.component import ConsulCluster, ConsulClusterArgs
from components.node_pool.component import NodePool, NodePoolArgs
from components.nomad.component import NomadCluster, NomadClusterArgs
from components.serving.component import gate_secrets
from slipway.plan.platform import PlatformPlan
from stacks.recording import Recording
from stacks.targets.dev import TARGET
from tests.components.cluster_plan import cluster_plan, with_more_cpu, with_nodes
from tests.components.recording import record

COMMAND = "command:local:Command"
NO_PLATFORM = cast("SlipwayComponent", None)  # dev creates nothing for its hosts


def hosts(
    plan: PlatformPlan,
    opts: pulumi.ResourceOptions | None = None,
    *,
    changed_at_once: float = 1.0,
) -> Callable[[], None]:
    """The part of the platform that has hosts."""

    def build() -> None:
        realisation = replace(TARGET.hosts(plan, NO_PLATFORM), changed_at_once=changed_at_once)
        authority = CertificateAuthority(
            "authority", CertificateAuthorityArgs(plan=plan, hosts=TARGET.hosts(plan, NO_PLATFORM))
        )
        certificates = {
            server.name: authority.issue(identities.server(plan, server)) for server in plan.servers
        }
        consul = ConsulCluster(
            "consul",
            ConsulClusterArgs(
                plan=plan,
                hosts=TARGET.hosts(plan, NO_PLATFORM),
                certificates=certificates,
                operator=authority.operator,
            ),
            opts=opts,
        )
        nomad = NomadCluster(
            "nomad",
            NomadClusterArgs(
                plan=plan,
                hosts=TARGET.hosts(plan, NO_PLATFORM),
                consul_address=consul.address,
                consul_seed=consul.seed,
                consul_token=consul.token,
                consul_ready=consul.ready,
                certificates=certificates,
                authority=authority.pem,
            ),
        )
        for pool in plan.pools:
            args = NodePoolArgs(
                plan=plan,
                pool=pool,
                hosts=realisation,
                consul_seed=consul.seed,
                nomad_token=nomad.token,
                operator_secrets=gate_secrets(nomad.token, consul.token),
                authority=authority,
                servers=[*consul.ready, *nomad.servers],
                clusters_ready=[*consul.ready, *nomad.ready],
            )
            NodePool(f"pool-{pool.name}", args)

    return build


@pytest.fixture(scope="module")
def recording() -> Recording:
    return record(hosts(cluster_plan()))


def test_the_tree_has_the_shape_that_state_files_rely_on(recording: Recording) -> None:
    assert recording.tree() == {
        "authority": "",
        "authority-seed": "authority",
        "authority-certificate": "authority",
        "operator-access": "authority",
        "certificate-operator": "authority",
        "certificate-host-server-0": "authority",
        "certificate-host-cpu-0": "authority",
        "certificate-host-cpu-1": "authority",
        "certificate-host-edge-0": "authority",
        "consul": "",
        "consul-seed": "consul",
        "consul-server-0": "consul",
        "consul-acl": "consul",
        "nomad": "",
        "nomad-seed": "nomad",
        "nomad-server-0": "nomad",
        "nomad-acl": "nomad",
        "nomad-workloads": "nomad",
        "pool-cpu": "",
        "node-cpu-0": "pool-cpu",
        "node-cpu-1": "pool-cpu",
        "pool-cpu-ready": "pool-cpu",
        "pool-edge": "",
        "node-edge-0": "pool-edge",
        "pool-edge-ready": "pool-edge",
    }


def test_components_carry_the_tokens_that_policies_match(recording: Recording) -> None:
    types = {name: recording[name].type for name in ("consul", "nomad", "pool-cpu")}
    assert types == {
        "consul": "slipway:index:ConsulCluster",
        "nomad": "slipway:index:NomadCluster",
        "pool-cpu": "slipway:index:NodePool",
    }


def test_every_component_registers_its_outputs(recording: Recording) -> None:
    assert {"consul", "nomad", "pool-cpu", "pool-edge"} <= recording.finished


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("consul-acl", "consul-server-0"),
        ("consul-acl", "operator-access"),
        ("nomad-server-0", "consul-acl"),
        ("nomad-acl", "nomad-server-0"),
        ("nomad-workloads", "nomad-acl"),
        ("node-cpu-0", "nomad-server-0"),
        ("node-edge-0", "consul-acl"),
        ("pool-cpu-ready", "nomad-workloads"),
        ("pool-cpu-ready", "node-cpu-1"),
    ],
)
def test_each_step_waits_for_the_one_before(recording: Recording, later: str, earlier: str) -> None:
    assert earlier in recording[later].depends_on


def test_the_nodes_of_a_pool_do_not_wait_for_each_other(recording: Recording) -> None:
    assert "node-cpu-0" not in recording["node-cpu-1"].depends_on
    assert "node-cpu-0" not in recording["node-edge-0"].depends_on


def test_nodes_of_their_own_change_one_after_the_other_or_a_tenth_at_a_time() -> None:
    def earlier(hosts_of_pool: int) -> list[set[str]]:
        plan = with_nodes(cluster_plan(), "cpu", hosts_of_pool)
        recording = record(hosts(plan, changed_at_once=0.1))
        names = [f"node-cpu-{index}" for index in range(hosts_of_pool)]
        return [set(recording[name].depends_on) & set(names) for name in names]

    assert earlier(3) == [set(), {"node-cpu-0"}, {"node-cpu-1"}]
    assert earlier(20)[:4] == [set(), set(), {"node-cpu-0"}, {"node-cpu-1"}]


def test_servers_change_one_after_the_other() -> None:
    recording = record(hosts(cluster_plan(servers=3)))
    for system in ("consul", "nomad"):
        names = [f"{system}-server-{index}" for index in range(3)]
        for earlier, later in itertools.pairwise(names):
            assert recording[later].depends_on & set(names) == {earlier}
        assert set(names) <= recording[f"{system}-acl"].depends_on


def test_options_of_a_component_do_not_reach_its_children() -> None:
    options = pulumi.ResourceOptions(ignore_changes=["environment"])
    recording = record(hosts(cluster_plan(), options))
    ignoring = [name for name, found in recording.registrations.items() if found.ignore_changes]
    assert ignoring == ["consul"]


def test_of_a_protected_cluster_what_cannot_be_made_again_is_protected_too() -> None:
    options = pulumi.ResourceOptions(protect=True)
    recording = record(hosts(cluster_plan(servers=3), options))
    protected = {name for name, found in recording.registrations.items() if found.protect}
    servers = {f"consul-server-{index}" for index in range(3)}
    assert protected == {"consul", "consul-seed", *servers}


@pytest.mark.parametrize("preview", [False, True])
def test_a_host_has_at_most_four_resources_and_no_trigger(preview: bool) -> None:
    recording = record(hosts(cluster_plan()), preview=preview)
    of_one_host = [name for name in recording.registrations if "cpu-0" in name]
    assert of_one_host == ["certificate-host-cpu-0", "node-cpu-0"]
    commands = [found for found in recording.registrations.values() if found.type == COMMAND]
    assert len(commands) == 11
    assert [command.name for command in commands if "triggers" in command.inputs] == []


@pytest.mark.parametrize("preview", [False, True])
def test_documents_are_plain_and_known_at_preview_and_only_secrets_are_not(preview: bool) -> None:
    recording = record(hosts(cluster_plan()), preview=preview)
    commands = [found for found in recording.registrations.values() if found.type == COMMAND]
    for command in commands:
        document = command.inputs["environment"]["SLIPWAY_DOCUMENT"]
        assert json.loads(document)["schema_version"] >= 1
        assert not command.is_unknown("environment")
        assert not command.is_unknown("create")
        assert command.is_unknown("stdin") if preview else command.is_secret("stdin")


def test_no_secret_is_outside_of_standard_input(recording: Recording) -> None:
    for found in recording.registrations.values():
        public = {key: value for key, value in found.inputs.items() if not found.is_secret(key)}
        assert "random of" not in json.dumps(public)
        assert "PRIVATE KEY" not in json.dumps(public)


def test_the_keys_of_hosts_and_of_the_authority_reach_nothing_but_their_own_inputs(
    recording: Recording,
) -> None:
    holders = {
        (found.type.rpartition(":")[2], key)
        for found in recording.registrations.values()
        for key, value in found.inputs.items()
        if "PRIVATE KEY" in json.dumps(value)
    }
    assert holders == {
        ("Command", "stdin"),
        ("LocallySignedCert", "caPrivateKeyPem"),
        ("SelfSignedCert", "privateKeyPem"),
    }


def test_programs_run_out_of_the_bundle_of_the_plan(recording: Recording) -> None:
    program = 'exec "$SLIPWAY_PYTHON" "$SLIPWAY_CACHE/bundles/host-0123456789ab/agents.py"'
    assert recording["node-cpu-0"].text("create") == f"{program} apply"
    assert recording["node-cpu-0"].text("delete") == f"{program} remove"
    assert "delete" not in recording["pool-cpu-ready"].inputs


def test_the_operators_tokens_stay_for_nodes_that_leave(recording: Recording) -> None:
    for permissions in ("consul-acl", "nomad-acl", "nomad-workloads"):
        assert "delete" not in recording[permissions].inputs


def test_a_changed_pool_updates_its_own_nodes_and_gate_only(recording: Recording) -> None:
    after = record(hosts(with_more_cpu(cluster_plan(), "cpu")))
    changed = {
        name
        for name, found in recording.registrations.items()
        if found.inputs != after[name].inputs
    }
    assert changed == {"pool-cpu", "node-cpu-0", "node-cpu-1", "pool-cpu-ready"}


def test_facts_of_a_pool_are_plain_at_preview() -> None:
    inputs = record(hosts(cluster_plan()), preview=True)["pool-cpu"].inputs["facts"]
    assert inputs["pool"] == "cpu"
    assert inputs["nodes"] == 2
    assert inputs["memory_bytes"] == 4 * 1024**3
