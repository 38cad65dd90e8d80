"""For every rule: resources that violate it, follow it, or cannot be judged.

Each builder makes a resource that follows every rule; a case changes some of its values, by dotted
path. MISSING removes one.
"""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rules.facts import UNKNOWN
from rules.rule import (
    COMMAND,
    CONSUL_CLUSTER,
    CONSUL_KEYS,
    GATEWAY,
    MODEL_SERVICE,
    NODE_POOL,
    NOMAD_ACL_POLICY,
    NOMAD_JOB,
    PLATFORM,
    Resource,
    Settings,
)

TODAY = datetime.date(2026, 11, 21)
SETTINGS = Settings(
    today=TODAY, allowed_licenses=frozenset({"Apache-2.0"}), usd_per_hour_before=90.0
)
CANARY = "hf_canaryCanaryCanaryCanaryCanaryCanary"
MISSING = object()

Changes = Mapping[str, Any]
Build = Callable[[Changes], Resource]


@dataclass(frozen=True, kw_only=True)
class Case:
    build: Build
    violating: Sequence[Changes]
    unknown: Sequence[Changes]
    passing: Sequence[Changes] = ()  # besides the unchanged resource


def resource(type_: str, name: str, base: Mapping[str, Any]) -> Build:
    """A builder; the path "protect" sets the resource's option, not a property."""

    def build(changes: Changes) -> Resource:
        props = changed(base, {path: new for path, new in changes.items() if path != "protect"})
        protect = changes.get("protect", True)
        return Resource(type=type_, name=name, props=props, settings=SETTINGS, protect=protect)

    return build


def changed(base: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    document: Any = copy.deepcopy(dict(base))
    for path, new in changes.items():
        *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
        part = document
        for key in way:
            part = part[key] if isinstance(key, int) else part.setdefault(key, {})
        if new is MISSING:
            del part[last]
        else:
            part[last] = new
    return dict(document)


platform = resource(
    PLATFORM,
    "platform",
    {
        "schema_version": 1,
        "environment": "prod",
        "target": "aws",
        "servers": 3,
        "budget": {
            "usd_per_hour": 120,
            "usd_per_hour_at_most": 300,
            "usd_per_hour_per_change": 20,
        },
        "cost": {"usd_per_hour": 100, "usd_per_hour_at_most": 250, "price_date": "2026-11-01"},
    },
)

model = resource(
    MODEL_SERVICE,
    "model-chat",
    {
        "schema_version": 1,
        "model": "chat",
        "pool": "h100",
        "license": "Apache-2.0",
        "source": {"kind": "hf", "name": "owner/chat", "revision": "0" * 40},
        "scaling": {"min_replicas": 3, "max_replicas": 6, "target_inflight_per_replica": 32},
        "memory": {"kv_tokens": 200_000},
        "goal": {"ttft_p95_ms": 500, "tpot_p95_ms": 50},
        "load": {"requests_per_s": 4, "input_tokens": 1000, "output_tokens": 300},
        "engine": {"max_model_len": 32_768, "max_num_seqs": 64, "engine_args": {}},
        "replica": {"nodes": 1, "accelerators": 4, "load_timeout_s": 900, "drain_timeout_s": 600},
        "route": {"max_concurrent_requests_per_replica": 128, "max_stream_duration_s": 600},
        "capacity": {
            "market": "on_demand",
            "layout": {"tensor": 4, "pipeline": 1, "expert": 1, "data": 1},
            "accelerators_per_node": 8,
            "fabric": "tcp",
            "allow_tcp": False,
            "meets_goal": True,
            "replicas_needed": 1.7,
            "utilization": 0.6,
            "ttft_ms": 300,
            "tpot_ms": 30,
            "load_s": 200,
            "cold_start_s": 400,
            "cold_start_cliff_s": 120,
        },
    },
)

pool = resource(
    NODE_POOL,
    "pool-h100",
    {
        "schema_version": 1,
        "pool": "h100",
        "kind": "aws",
        "nodes": 2,
        "accelerator": "H100-80",
        "accelerators_per_node": 8,
        "capacity": {
            "market": "on_demand",
            "nodes_max": 4,
            "accelerators_used_at_most": 24,
            "usd_per_hour": 110.08,
            "quota_nodes": 4,
        },
    },
)

gateway = resource(GATEWAY, "gateway", {"address": "10.0.0.5", "port": 8080})
cluster = resource(CONSUL_CLUSTER, "consul", {"servers": 3})
keys = resource(
    CONSUL_KEYS,
    "model-chat-route",
    {"keys": [{"path": "slipway/routes/chat", "value": '{"model": "chat"}'}]},
)
command = resource(
    COMMAND,
    "node-0",
    {"create": "python agents.py apply", "environment": {"SLIPWAY_DOCUMENT": '{"address": "x"}'}},
)
acl_policy = resource(
    NOMAD_ACL_POLICY,
    "autoscaler",
    {"rulesHcl": 'namespace "default" {\n  policy = "scale"\n}\n'},
)

JOB: Mapping[str, Any] = {
    "ID": "model-chat-1a2b3c",
    "Type": "service",
    "Update": {"MaxParallel": 0},
    "TaskGroups": [
        {
            "Name": "replica",
            "Count": 3,
            "ShutdownDelay": 5_000_000_000,
            "Scaling": {"Min": 3, "Max": 6, "Policy": {}},
            "RestartPolicy": {"Mode": "delay"},
            "ReschedulePolicy": {"Unlimited": True},
            "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}],
            "Services": [
                {"Name": "chat", "Checks": [{"Type": "http", "Path": "/health"}]},
                {"Name": "chat-metrics"},
            ],
            "Tasks": [
                {
                    "Name": "server",
                    "Driver": "docker",
                    "Config": {"image": f"triton@sha256:{'0' * 64}", "args": ["--port", "8000"]},
                    "Env": {"SLIPWAY_ADDRESS": "${meta.address}", "TOKENIZERS_PARALLELISM": "0"},
                    "Resources": {"CPU": 4000, "MemoryMB": 64_000},
                    "KillTimeout": 630_000_000_000,
                    "Templates": [
                        {"DestPath": "local/replica.json", "EmbeddedTmpl": '{"model": "chat"}'}
                    ],
                }
            ],
        }
    ],
}
GROUP, TASK = "TaskGroups.0", "TaskGroups.0.Tasks.0"
HCL = {"props.jobspec": 'job "chat" {}'}


def job(changes: Changes) -> Resource:
    """Paths lead into the job; those under "props" are the resource's own properties."""
    inside = {path: new for path, new in changes.items() if not path.startswith("props.")}
    document = json.dumps({"Job": changed(JOB, inside)})
    own = {path.removeprefix("props."): new for path, new in changes.items() if path not in inside}
    props = changed({"jobspec": document, "json": True, "preserveCounts": True}, own)
    return Resource(type=NOMAD_JOB, name="model-chat", props=props, settings=SETTINGS, protect=True)


UNKNOWN_JOB = ({"props.jobspec": UNKNOWN}, HCL, {"props.jobspec": MISSING})


# A replica over two whole hosts of 8.
GROUP_OF_TWO: Changes = {
    "replica.nodes": 2,
    "replica.accelerators": 16,
    "capacity.layout.tensor": 8,
    "capacity.layout.pipeline": 2,
    "capacity.fabric": "roce",
}

NO_LOAD: Changes = {"load": None, "capacity.meets_goal": None, "capacity.replicas_needed": None}
CPU_MODEL: Changes = {"replica.accelerators": 0, "capacity": MISSING}

# Several resources may share a rule: one case each.
CASES: Mapping[str, Sequence[Case]] = {
    # Capacity
    "slo-infeasible": [
        Case(
            build=model,
            violating=[{"capacity.meets_goal": False}],
            passing=[CPU_MODEL, NO_LOAD],
            unknown=[{"capacity.meets_goal": UNKNOWN}, {"capacity.meets_goal": "yes"}],
        )
    ],
    "undeclared-load": [
        Case(
            build=model,
            violating=[{"load": None}, {"goal": {"ttft_p95_ms": None, "tpot_p95_ms": None}}],
            passing=[{"goal.tpot_p95_ms": None}],
            unknown=[{"load": UNKNOWN}, {"load": MISSING}, {"goal": UNKNOWN}, {"goal": {}}],
        )
    ],
    "replicas-below-load": [
        Case(
            build=model,
            violating=[{"capacity.replicas_needed": 6.1}],
            passing=[CPU_MODEL, NO_LOAD, {"capacity.replicas_needed": 6}],
            unknown=[{"capacity.replicas_needed": UNKNOWN}, {"scaling.max_replicas": MISSING}],
        )
    ],
    "no-warm-capacity": [
        Case(
            build=model,
            violating=[{"scaling.min_replicas": 2}, {"capacity.replicas_needed": 3}],
            passing=[
                CPU_MODEL,
                {"scaling.min_replicas": 2, "capacity.cold_start_s": 120},
                {"scaling.min_replicas": 2, "capacity.cold_start_cliff_s": None},
            ],
            unknown=[{"capacity.cold_start_s": MISSING}, {"capacity.cold_start_cliff_s": UNKNOWN}],
        )
    ],
    "kv-cache-below-one-sequence": [
        Case(
            build=model,
            violating=[{"memory.kv_tokens": 32_767}],
            passing=[{"memory.kv_tokens": 32_768}],
            unknown=[{"memory": MISSING}, {"engine.max_model_len": UNKNOWN}],
        )
    ],
    "sequences-above-kv-cache": [
        Case(
            build=model,
            violating=[{"memory.kv_tokens": 64 * 1300 - 1}],
            passing=[{"memory.kv_tokens": 64 * 1300}, NO_LOAD],
            unknown=[{"memory.kv_tokens": UNKNOWN}, {"load.output_tokens": MISSING}],
        )
    ],
    "breaker-below-streams": [
        Case(
            build=model,
            violating=[{"route.max_concurrent_requests_per_replica": 63}],
            passing=[{"route.max_concurrent_requests_per_replica": 64}],
            unknown=[{"route": MISSING}, {"engine.max_num_seqs": UNKNOWN}],
        )
    ],
    "drain-below-longest-stream": [
        Case(
            build=model,
            violating=[{"replica.drain_timeout_s": 599}],
            unknown=[{"route.max_stream_duration_s": UNKNOWN}, {"replica": MISSING}],
        )
    ],
    "tensor-parallel-without-rdma": [
        Case(
            build=model,
            violating=[{"capacity.layout.tensor": 16}],
            passing=[
                CPU_MODEL,
                {"capacity.layout.tensor": 8},
                {"capacity.layout.tensor": 16, "capacity.fabric": "efa"},
            ],
            unknown=[
                {"capacity.layout.tensor": 16, "capacity.fabric": MISSING},
                {"capacity.layout.tensor": UNKNOWN},
            ],
        )
    ],
    "expert-or-data-parallel-over-hosts": [
        Case(
            build=model,
            violating=[
                GROUP_OF_TWO | {"capacity.layout.expert": 16},
                GROUP_OF_TWO | {"capacity.layout.data": 2},
            ],
            passing=[GROUP_OF_TWO, {"capacity.layout.data": 2, "capacity.layout.expert": 8}],
            unknown=[
                {"replica.nodes": MISSING},
                GROUP_OF_TWO | {"capacity.layout.data": UNKNOWN},
            ],
        )
    ],
    "pipeline-over-tcp": [
        Case(
            build=model,
            violating=[
                GROUP_OF_TWO | {"capacity.fabric": "tcp"},
                GROUP_OF_TWO | {"replica.accelerators": 0, "capacity.fabric": "tcp"},
            ],
            passing=[
                GROUP_OF_TWO,
                GROUP_OF_TWO | {"capacity.fabric": "efa"},
                GROUP_OF_TWO | {"capacity.fabric": "tcp", "capacity.allow_tcp": True},
            ],
            unknown=[
                {"replica.nodes": UNKNOWN},
                GROUP_OF_TWO | {"capacity.fabric": UNKNOWN},
                {"capacity.allow_tcp": MISSING},
            ],
        )
    ],
    "group-on-parts-of-hosts": [
        Case(
            build=model,
            violating=[GROUP_OF_TWO | {"replica.accelerators": 12}],
            passing=[
                GROUP_OF_TWO,
                GROUP_OF_TWO | {"replica.accelerators": 0},
                {"replica.accelerators": 6},
            ],
            unknown=[
                {"replica.nodes": UNKNOWN},
                GROUP_OF_TWO | {"capacity.accelerators_per_node": MISSING},
            ],
        )
    ],
    "scaling-target-above-batch": [
        Case(
            build=model,
            violating=[{"scaling.target_inflight_per_replica": 65}],
            passing=[{"scaling.target_inflight_per_replica": 64}],
            unknown=[{"scaling.target_inflight_per_replica": UNKNOWN}],
        )
    ],
    "load-timeout-below-start": [
        Case(
            build=model,
            violating=[{"capacity.load_s": 901}],
            passing=[CPU_MODEL, {"capacity.load_s": 900}],
            unknown=[{"capacity.load_s": UNKNOWN}, {"capacity": MISSING}],
        )
    ],
    "single-replica": [
        Case(
            build=model,
            violating=[{"scaling.min_replicas": 1}],
            passing=[{"scaling.min_replicas": 2}],
            unknown=[{"scaling.min_replicas": UNKNOWN}, {"scaling": MISSING}],
        )
    ],
    "pool-overcommitted": [
        Case(
            build=pool,
            violating=[{"capacity.accelerators_used_at_most": 33}],
            passing=[{"capacity.accelerators_used_at_most": 32}, {"accelerator": None}],
            unknown=[{"capacity.nodes_max": UNKNOWN}, {"capacity": MISSING}],
        )
    ],
    "pool-above-quota": [
        Case(
            build=pool,
            violating=[{"capacity.quota_nodes": 3}],
            passing=[{"capacity.quota_nodes": None}],
            unknown=[{"capacity.quota_nodes": UNKNOWN}, {"capacity.nodes_max": MISSING}],
        )
    ],
    # Cost
    "over-budget": [
        Case(
            build=platform,
            violating=[{"cost.usd_per_hour": 120.01}],
            passing=[{"cost.usd_per_hour": 120}, {"budget.usd_per_hour": None}],
            unknown=[
                {"budget": MISSING},
                {"cost": MISSING},
                {"cost.usd_per_hour": UNKNOWN},
                {"budget": UNKNOWN},
            ],
        )
    ],
    "scaling-above-budget": [
        Case(
            build=platform,
            violating=[{"cost.usd_per_hour_at_most": 301}],
            passing=[{"budget.usd_per_hour_at_most": None}],
            unknown=[{"cost.usd_per_hour_at_most": UNKNOWN}],
        )
    ],
    "change-over-budget": [
        Case(
            build=platform,
            violating=[{"cost.usd_per_hour": 110.5}],
            passing=[{"cost.usd_per_hour": 110}, {"budget.usd_per_hour_per_change": None}],
            unknown=[{"cost.usd_per_hour": UNKNOWN}, {"budget.usd_per_hour_per_change": "few"}],
        )
    ],
    "no-budget": [
        Case(
            build=platform,
            violating=[{"budget.usd_per_hour": None}],
            passing=[{"budget.usd_per_hour": None, "cost.usd_per_hour": 0}],
            unknown=[
                {"cost": MISSING},
                {"budget": UNKNOWN},
                {"budget": MISSING},
                {"budget.usd_per_hour": MISSING},
                {"cost.usd_per_hour": UNKNOWN},
            ],
        )
    ],
    "stale-price": [
        Case(
            build=platform,
            violating=[{"cost.price_date": "2026-08-22"}],
            passing=[{"cost.price_date": "2026-08-23"}, {"cost.price_date": ""}],
            unknown=[{"cost.price_date": UNKNOWN}, {"cost.price_date": "in summer"}],
        )
    ],
    "unpriced-pool": [
        Case(
            build=pool,
            violating=[{"capacity.usd_per_hour": None}],
            passing=[{"kind": "metal", "capacity.usd_per_hour": None}],
            unknown=[{"capacity.usd_per_hour": UNKNOWN}, {"kind": MISSING}],
        )
    ],
    "idle-accelerators": [
        Case(
            build=model,
            violating=[{"capacity.utilization": 0.19}],
            passing=[{"capacity.utilization": 0.2}, CPU_MODEL, NO_LOAD],
            unknown=[{"capacity.utilization": UNKNOWN}, {"replica.accelerators": MISSING}],
        )
    ],
    "spot-floor": [
        Case(
            build=model,
            violating=[{"capacity.market": "spot"}],
            passing=[{"capacity.market": "capacity_block"}, CPU_MODEL],
            unknown=[{"capacity.market": UNKNOWN}, {"capacity.market": MISSING}],
        )
    ],
    # Network
    "public-gateway": [
        Case(
            build=gateway,
            violating=[{"address": "0.0.0.0"}, {"address": "52.1.2.3"}, {"address": "::"}],
            passing=[{"address": "127.77.0.32"}],
            unknown=[{"address": UNKNOWN}, {"address": "gateway.example"}],
        )
    ],
    "listens-everywhere": [
        Case(
            build=job,
            violating=[
                {f"{TASK}.Config.args": ["--listen=0.0.0.0:8000"]},
                {f"{TASK}.Env.HOST": "0.0.0.0"},
                {f"{TASK}.Templates.0.EmbeddedTmpl": 'address = "[::]:80"'},
            ],
            passing=[{f"{TASK}.Config.args": ["--allow=0.0.0.0/0", "--version=10.0.0.0"]}],
            unknown=UNKNOWN_JOB,
        )
    ],
    # Security
    "secret-in-job": [
        Case(
            build=job,
            violating=[
                {f"{TASK}.Env.HF_TOKEN": "whatever"},
                {f"{TASK}.Env.NOTE": f"use {CANARY}"},
                {f"{TASK}.Config.args": ["--key", CANARY]},
                {f"{TASK}.Templates.0.EmbeddedTmpl": '{"password": "hunter2"}'},
                {f"{TASK}.Templates.0.EmbeddedTmpl": "auth_token = 'hunter2'"},
                {f"{TASK}.Templates.0.EmbeddedTmpl": "-----BEGIN RSA PRIVATE KEY-----"},
            ],
            passing=[
                {f"{TASK}.Env.HF_TOKEN": "${NOMAD_SECRETS_DIR}/token"},
                {f"{TASK}.Env.NOMAD_TOKEN": ""},
                {f"{TASK}.Templates.0.EmbeddedTmpl": '{"max_tokens": 5, "password": ""}'},
                {f"{TASK}.Templates.0.EmbeddedTmpl": 'token = "{{ with nomadVar }}"'},
                {f"{TASK}.Templates.0.EmbeddedTmpl": '{"eos_token": "</s>"}'},
                {f"{TASK}.Env.STOP_TOKEN": "</s>"},
            ],
            unknown=UNKNOWN_JOB,
        )
    ],
    "secret-in-kv": [
        Case(
            build=keys,
            violating=[
                {"keys.0.value": f'{{"model": "{CANARY}"}}'},
                {"keys.0.path": "slipway/api_key", "keys.0.value": "abc"},
            ],
            passing=[{"keys": MISSING}],
            unknown=[{"keys": UNKNOWN}, {"keys.0.value": UNKNOWN}],
        )
    ],
    "secret-in-command": [
        Case(
            build=command,
            violating=[
                {"create": f"deploy --token {CANARY}"},
                {"environment.ADMIN_PASSWORD": "hunter2"},
            ],
            passing=[{"stdin": CANARY}, {"environment.TOKEN": "/run/token"}],
            unknown=[{"create": UNKNOWN}, {"environment.SLIPWAY_DOCUMENT": UNKNOWN}],
        )
    ],
    "wildcard-nomad-policy": [
        Case(
            build=acl_policy,
            violating=[
                {"rulesHcl": 'namespace "*" { policy = "write" }'},
                {"rulesHcl": 'namespace "prod-*" { capabilities = ["submit-job"] }'},
                {"rulesHcl": 'operator { policy = "write" }'},
            ],
            passing=[{"rulesHcl": 'namespace "*" { policy = "read" }'}],
            unknown=[{"rulesHcl": UNKNOWN}],
        )
    ],
    "unpinned-image": [
        Case(
            build=job,
            violating=[
                {f"{TASK}.Config.image": "triton"},
                {f"{TASK}.Config.image": "triton:26.01"},
                {f"{TASK}.Config.image": f"triton@sha256:{'0' * 63}"},
            ],
            passing=[
                {f"{TASK}.Config": {"command": "python"}},
                {f"{TASK}.Config.image": f"registry.example/triton@sha256:{'0' * 64}"},
                {f"{TASK}.Config.image": f"sha256:{'0' * 64}"},
            ],
            unknown=UNKNOWN_JOB,
        )
    ],
    "unpinned-model": [
        Case(
            build=model,
            violating=[
                {"source.revision": "main"},
                {"source": {"kind": "package", "revision": ""}},
                {"source": {"kind": "s3", "name": "s3://b/k", "revision": None}},
                {"source": {"kind": "path", "revision": "latest"}},
            ],
            passing=[
                {"source": {}},
                {"source": {"kind": "package", "revision": "0" * 64}},
                {"source": {"kind": "path", "revision": "2026-11"}},
            ],
            unknown=[
                {"source.revision": UNKNOWN},
                {"source.revision": MISSING},
                {"source": UNKNOWN},
            ],
        )
    ],
    "license-not-allowed": [
        Case(
            build=model,
            violating=[{"license": "cc-by-nc-4.0"}, {"license": ""}],
            passing=[{"license": "", "source": {}}],
            unknown=[{"license": UNKNOWN}, {"license": MISSING}],
        )
    ],
    "remote-code": [
        Case(
            build=model,
            violating=[
                {"engine.engine_args": {"trust_remote_code": True}},
                {"engine.engine_args": {"trust-remote-code": "true"}},
            ],
            passing=[{"engine.engine_args": {"trust_remote_code": False}}],
            unknown=[{"engine.engine_args": UNKNOWN}],
        )
    ],
    # Nomad
    "no-health-check": [
        Case(
            build=job,
            violating=[{f"{GROUP}.Services": []}, {f"{GROUP}.Services": [{"Name": "chat"}]}],
            passing=[
                {"Type": "batch", f"{GROUP}.Services": []},
                {f"{GROUP}.Services": [], f"{GROUP}.Networks": []},
                {f"{GROUP}.Services": [], f"{TASK}.Services": [{"Checks": [{"Type": "tcp"}]}]},
            ],
            unknown=UNKNOWN_JOB,
        )
    ],
    "no-limits": [
        Case(
            build=job,
            violating=[{f"{TASK}.Resources.CPU": 0}, {f"{TASK}.Resources": MISSING}],
            passing=[{f"{TASK}.Resources": {"Cores": 2, "MemoryMB": 1}}],
            unknown=UNKNOWN_JOB,
        )
    ],
    "deployment-blocks-scaling": [
        Case(
            build=job,
            violating=[{"Update.MaxParallel": 1}, {"Update": MISSING}],
            passing=[
                {"Update": MISSING, f"{GROUP}.Scaling": None},
                {"Update.MaxParallel": 2, f"{GROUP}.Update": {"MaxParallel": 0}},
            ],
            unknown=UNKNOWN_JOB,
        )
    ],
    "count-not-preserved": [
        Case(
            build=job,
            violating=[{"props.preserveCounts": False}, {"props.preserveCounts": MISSING}],
            passing=[{"props.preserveCounts": False, f"{GROUP}.Scaling": None}],
            unknown=[*UNKNOWN_JOB, {"props.preserveCounts": UNKNOWN}],
        )
    ],
    "count-outside-envelope": [
        Case(
            build=job,
            violating=[{f"{GROUP}.Count": 2}, {f"{GROUP}.Count": 7}],
            passing=[{f"{GROUP}.Count": 6}, {f"{GROUP}.Count": 9, f"{GROUP}.Scaling": None}],
            unknown=[*UNKNOWN_JOB, {f"{GROUP}.Count": MISSING}],
        )
    ],
    "stops-before-drain": [
        Case(
            build=job,
            violating=[
                {f"{GROUP}.ShutdownDelay": MISSING},
                {f"{TASK}.KillTimeout": MISSING},
                {f"{TASK}.KillTimeout": 5_000_000_000},
            ],
            passing=[{f"{GROUP}.ShutdownDelay": MISSING, f"{GROUP}.Scaling": None}],
            unknown=UNKNOWN_JOB,
        )
    ],
    "privileged-task": [
        Case(
            build=job,
            violating=[{f"{TASK}.Config.privileged": True}],
            passing=[{f"{TASK}.Config.privileged": False}],
            unknown=UNKNOWN_JOB,
        )
    ],
    "gives-up-restarting": [
        Case(
            build=job,
            violating=[
                {f"{GROUP}.RestartPolicy.Mode": "fail", f"{GROUP}.ReschedulePolicy": MISSING}
            ],
            passing=[
                {f"{GROUP}.RestartPolicy.Mode": "fail"},
                {
                    "Type": "batch",
                    f"{GROUP}.RestartPolicy.Mode": "fail",
                    f"{GROUP}.ReschedulePolicy": MISSING,
                },
            ],
            unknown=UNKNOWN_JOB,
        )
    ],
    "single-server": [
        Case(
            build=platform,
            violating=[{"servers": 1}, {"servers": 2}],
            unknown=[{"servers": UNKNOWN}, {"servers": MISSING}],
        )
    ],
    # Data
    "unprotected": [
        Case(build=pool, violating=[{"protect": False}], unknown=[{"protect": None}]),
        Case(build=cluster, violating=[{"protect": False}], unknown=[{"protect": None}]),
    ],
}
