"""What policies read of an environment that can be planned but not built yet.

The same facts as the components have in their properties (schemas/facts.schema.json).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slipway.config.environment import FleetSettings
from slipway.config.inputs import PlanInputs
from slipway.config.model import VllmEngine
from slipway.config.pools import AwsPool, MetalPool
from slipway.plan.capacity import CapacityPlan, Figure, ModelCapacity, PoolCapacity
from slipway.plan.facts import FACTS_VERSION, source_facts
from slipway.planner.engine import license_of
from slipway.planner.fleet.demand import load_of
from slipway.planner.fleet.supply import Supply, plan_supplies
from slipway.planner.models import concurrent_requests, target_inflight

OWN_LOAD_PARTS = ("load", "imports", "compile")  # of a cold start, after the weights are there

Facts = dict[str, Any]


def fleet_facts(inputs: PlanInputs, plan: CapacityPlan) -> list[Facts]:
    """The components of a fleet environment as resources: {type, name, parent, inputs}.

    What only a component could say (whether it is protected) is not in them.
    """
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings), "dev has components"  # noqa: S101
    supplies, _ = plan_supplies(settings.pools, inputs.catalog, inputs.environment.origin)
    pools = {pool.pool: pool for pool in plan.pools}
    return [
        _resource("Platform", "platform", _platform(settings, plan, supplies)),
        *(_resource("NodePool", f"pool-{pool.pool}", _pool(pool, settings)) for pool in plan.pools),
        *(
            _resource(
                "ModelService",
                f"model-{model.model}",
                _model(model, pools[model.pool], inputs, settings),
            )
            for model in plan.models
        ),
    ]


def _resource(kind: str, name: str, facts: Facts) -> Facts:
    return {
        "type": f"slipway:index:{kind}",
        "name": name,
        "parent": "" if kind == "Platform" else "platform",
        "inputs": {"facts": {"schema_version": FACTS_VERSION, **facts}},
    }


def _platform(settings: FleetSettings, plan: CapacityPlan, supplies: Mapping[str, Supply]) -> Facts:
    return {
        "environment": plan.environment,
        "target": settings.target,
        "servers": settings.servers,
        "pools": {pool.pool: pool.nodes_max for pool in plan.pools},
        "models": sorted(model.model for model in plan.models),
        "tools": {},
        "budget": settings.budget.model_dump(),
        "cost": {
            "usd_per_hour": plan.cost.usd_per_hour.value,
            "usd_per_hour_at_most": sum(
                _nodes_at_most(pool) * supplies[pool.pool].node_usd_per_hour.value
                for pool in plan.pools
            ),
            "price_date": plan.cost.price_date,
        },
    }


def _nodes_at_most(pool: PoolCapacity) -> int:
    """What every model at its maximum needs, within the pool's own limits."""
    needed = math.ceil(pool.accelerators_used_at_most / pool.accelerators_per_node)
    return min(max(needed, pool.nodes_min), pool.nodes_max)


def _pool(pool: PoolCapacity, settings: FleetSettings) -> Facts:
    declared = settings.pools[pool.pool]
    return {
        "pool": pool.pool,
        "kind": pool.kind,
        "nodes": pool.nodes_min,
        "accelerator": pool.accelerator,
        "accelerators_per_node": pool.accelerators_per_node,
        "capacity": {
            "instance": pool.instance,
            "market": pool.market,
            "nodes_min": pool.nodes_min,
            "nodes_max": pool.nodes_max,
            "accelerators_used": pool.accelerators_used,
            "accelerators_used_at_most": pool.accelerators_used_at_most,
            "usd_per_hour": pool.usd_per_hour.value,
            "quota_nodes": declared.quota if isinstance(declared, AwsPool) else None,
        },
    }


def _model(
    model: ModelCapacity, pool: PoolCapacity, inputs: PlanInputs, settings: FleetSettings
) -> Facts:
    declared = inputs.models[model.model]
    engine, timeouts = declared.settings.engine, declared.settings.timeouts
    source = declared.settings.source
    assert isinstance(engine, VllmEngine), "no other engine is planned for a fleet"  # noqa: S101
    architecture = inputs.catalog.models[model.architecture]
    load = load_of(declared, inputs.traces)
    return {
        "model": model.model,
        "aliases": list(declared.settings.aliases),
        "pool": model.pool,
        "license": license_of(declared.settings, architecture),
        "source": source_facts(None if source is None else source.model_dump()),
        "scaling": {
            "min_replicas": model.min_replicas,
            "max_replicas": model.max_replicas,
            "target_inflight_per_replica": target_inflight(declared.settings, settings.autoscaling),
        },
        "memory": {"kv_tokens": model.memory.kv_tokens},
        "goal": declared.settings.slo.model_dump(),
        "load": None
        if load is None
        else {
            "requests_per_s": load.requests_per_s,
            "input_tokens": load.input_tokens.mean,
            "output_tokens": load.output_tokens.mean,
        },
        "engine": {
            "max_model_len": engine.max_model_len or architecture.context,
            "max_num_seqs": engine.max_num_seqs,
            "engine_args": dict(engine.engine_args),
        },
        "replica": {
            "accelerators": model.layout.devices,
            "load_timeout_s": timeouts.load_s,
            "drain_timeout_s": timeouts.drain_s,
        },
        "route": {
            "max_concurrent_requests_per_replica": concurrent_requests(declared.settings),
            "max_stream_duration_s": timeouts.drain_s,
            "stream_idle_timeout_s": timeouts.stream_idle_s,
        },
        "capacity": _capacity(model, pool, _fabric(pool, inputs, settings)),
    }


def _fabric(pool: PoolCapacity, inputs: PlanInputs, settings: FleetSettings) -> str:
    declared = settings.pools[pool.pool]
    if isinstance(declared, MetalPool):
        return declared.fabric
    has_efa = inputs.catalog.instances[pool.instance].efa_interfaces > 0
    return "efa" if has_efa else "tcp"


def _capacity(model: ModelCapacity, pool: PoolCapacity, fabric: str) -> Facts:
    serving, start = model.serving, model.cold_start
    own_load = [start.parts[part].value for part in OWN_LOAD_PARTS if part in start.parts]
    return {
        "market": pool.market,
        "layout": {
            "tensor": model.layout.tensor,
            "pipeline": model.layout.pipeline,
            "expert": model.layout.expert,
            "data": model.layout.data,
        },
        "accelerators_per_node": pool.accelerators_per_node,
        "fabric": fabric,
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
