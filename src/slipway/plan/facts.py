"""The facts of a plan that policies read (schemas/facts.schema.json). Components carry them in
their properties; for an environment that cannot be built yet, policies read them from the plan
alone."""

from __future__ import annotations

import dataclasses

from .figures import Figure
from .platform import JsonObject, ModelPlan, PlatformPlan, Pool

FACTS_VERSION = 1
OWN_LOAD_PARTS = ("load", "imports", "compile")  # of a cold start, with weights on the node
ROUTE_LIMITS = (
    "max_concurrent_requests_per_replica",
    "max_stream_duration_s",
    "stream_idle_timeout_s",
)

Facts = dict[str, object]


def platform_facts(plan: PlatformPlan) -> Facts:
    return {
        "schema_version": FACTS_VERSION,
        "environment": plan.environment,
        "target": plan.target,
        "servers": len(plan.servers),
        "pools": {pool.name: pool.nodes_max for pool in plan.pools},
        "models": sorted(model.name for model in plan.models),
        "tools": dict(plan.tools),
        "budget": dataclasses.asdict(plan.budget),
        "cost": {
            "usd_per_hour": plan.cost.usd_per_hour.value,
            "usd_per_hour_at_most": plan.usd_per_hour_at_most,
            "price_date": plan.cost.price_date,
        },
    }


def pool_facts(pool: Pool) -> Facts:
    return {
        "schema_version": FACTS_VERSION,
        "pool": pool.name,
        "kind": pool.kind,
        "nodes": pool.nodes_min,
        "memory_bytes": pool.memory_bytes,
        "cpu_mhz": pool.cpu_mhz,
        "accelerator": pool.accelerator or None,
        "accelerators_per_node": pool.accelerators_per_node,
        "capacity": {
            "instance": pool.instance,
            "market": pool.market,
            "nodes_min": pool.nodes_min,
            "nodes_max": pool.nodes_max,
            "accelerators_used": pool.accelerators_used,
            "accelerators_used_at_most": pool.accelerators_used_at_most,
            "usd_per_hour": pool.usd_per_hour.value,
            "quota_nodes": pool.quota_nodes,
        },
    }


def model_facts(model: ModelPlan, pool: Pool) -> Facts:
    replica = model.replica
    engine, weights = replica.document["engine"], replica.weights
    return {
        "schema_version": FACTS_VERSION,
        "model": model.name,
        "aliases": list(model.aliases),
        "pool": model.pool,
        "spec_digest": model.stable.spec_digest,
        "license": model.license,
        "source": source_facts(None if weights is None else weights.document["source"]),
        "scaling": dataclasses.asdict(model.stable.scaling),
        "memory": _memory(model),
        "goal": dataclasses.asdict(model.goal),
        "load": None if model.load is None else dataclasses.asdict(model.load),
        "engine": {key: engine[key] for key in ("max_model_len", "max_num_seqs", "engine_args")},
        "replica": {
            "nodes": replica.nodes,
            "accelerators": replica.nodes * replica.devices,
            "memory_bytes": replica.memory_bytes,
            "load_timeout_s": replica.load_timeout_s,
            "drain_timeout_s": replica.drain_timeout_s,
        },
        "route": {key: model.route[key] for key in ROUTE_LIMITS},
        "capacity": _capacity(model, pool),
    }


def source_facts(source: JsonObject | None) -> Facts:
    """Where weights come from and what pins them; empty for an engine that loads none. `source` is
    the model file's: its key names the kind of source.
    """
    if source is None:
        return {}
    kind = next(kind for kind in ("package", "hf", "s3", "path") if kind in source)
    return {
        "kind": kind,
        "name": source[kind],
        "revision": source["sha256" if kind == "package" else "revision"],
    }


def _memory(model: ModelPlan) -> Facts:
    """Memory of one replica over all its devices, each counted as the fullest one."""
    memory, devices = model.memory, model.layout.devices
    overhead = (
        memory.activations_bytes
        + memory.graphs_bytes
        + memory.communication_bytes
        + memory.runtime_bytes
        + memory.adapters_bytes
    )
    return {
        "parameters": model.parameters,
        "weights_bytes": devices * memory.weights_bytes,
        "kv_bytes_per_token": memory.kv_bytes_per_token,
        "kv_cache_bytes": devices * memory.kv_cache_bytes,
        "kv_tokens": memory.kv_tokens,
        "overhead_bytes": devices * overhead,
        "total_bytes": devices * memory.usable_bytes,
    }


def _capacity(model: ModelPlan, pool: Pool) -> Facts:
    serving, start = model.serving, model.cold_start
    own_load = [start.parts[part].value for part in OWN_LOAD_PARTS if part in start.parts]
    return {
        "market": pool.market,
        "layout": dataclasses.asdict(model.layout),
        "accelerators_per_node": pool.accelerators_per_node,
        "fabric": pool.fabric.kind,
        "allow_tcp": pool.fabric.allow_tcp,
        "meets_goal": model.meets_goal,
        "replicas_needed": None if serving is None else model.replicas_needed.value,
        "utilization": None if serving is None else model.utilization,
        "ttft_ms": None if serving is None else serving.ttft_ms.value,
        "tpot_ms": None if serving is None else serving.tpot_ms.value,
        "load_s": sum(own_load),
        "cold_start_s": start.total_s.value,
        "cold_start_cliff_s": _value(start.cliff_s),
    }


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value
