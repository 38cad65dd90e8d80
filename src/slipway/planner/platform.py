"""The whole plan of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.config.artifacts import Artifacts
from slipway.config.environment import DevSettings, Environment, EnvironmentSettings
from slipway.config.errors import ConfigError, Problem, raise_if_any
from slipway.config.inputs import PlanInputs
from slipway.plan.platform import (
    AutoscalingPlan,
    GatewayPlan,
    ModelPlan,
    MonitoringPlan,
    NodeAgentPlan,
    PlatformPlan,
    Pool,
)
from slipway.planner.fleet.demand import load_of
from slipway.planner.memory.device import GIB, MIB

from .addresses import lay_out
from .engine import EnginePlan, plan_engine
from .models import demand, plan_model
from .placement import Placement, Resources, place, room_for
from .pools import plan_pools

ENVOY_ADMIN_PORT = 9901
XDS_PORT = 18000
XDS_HTTP_PORT = 18001
PROMETHEUS_PORT = 9090
AUTOSCALER_PORT = 8081
SUPERVISOR_PORT = 9001

# Kept on the gateway's node for Envoy, xDS, Prometheus and the Autoscaler: 64 + 97 + 38 MB and a
# Python process measured idle (2026-11-21), with room for their caches to grow.
PLATFORM_JOBS = Resources(memory_bytes=GIB, cpu_mhz=500, ports=0)


def make_plan(inputs: PlanInputs) -> PlatformPlan:
    """Decide addresses, sizes, digests and placement of one environment.

    Pure: the same inputs give the same plan. Raises ConfigError with everything that cannot be.
    """
    environment = inputs.environment
    settings, origin = _dev_settings(environment), environment.origin
    layout = lay_out(settings, origin)
    raise_if_any(layout.problems)
    pools, problems = plan_pools(settings, layout.nodes, inputs.machine, origin)
    by_name = {pool.name: pool for pool in pools}
    models, model_problems = _models(inputs, settings, by_name)
    raise_if_any([*problems, *model_problems])
    placements = _placements(pools, models, settings.gateway.pool)
    raise_if_any(_misfits(inputs, placements, models, by_name))
    gateway_address = by_name[settings.gateway.pool].nodes[0].address
    return PlatformPlan(
        environment=environment.name,
        target=settings.target,
        datacenter=environment.name,
        cidr=settings.network.cidr,
        servers=layout.servers,
        pools=pools,
        models=tuple(_with_surge(model, placements[model.pool]) for model in models),
        gateway=_gateway(settings, gateway_address, inputs.artifacts),
        monitoring=MonitoringPlan(
            pool=settings.gateway.pool,
            address=gateway_address,
            port=PROMETHEUS_PORT,
            scrape_interval_s=settings.monitoring.scrape_interval_s,
        ),
        autoscaling=AutoscalingPlan(
            pool=settings.gateway.pool,
            address=gateway_address,
            port=AUTOSCALER_PORT,
            evaluation_interval_s=settings.autoscaling.evaluation_interval_s,
        ),
        node_agent=NodeAgentPlan(
            bundle=inputs.artifacts.bundles["node"],
            environment=inputs.artifacts.environments["node"],
            supervisor_address=layout.servers[0].address,
            supervisor_port=SUPERVISOR_PORT,
        ),
        tools=dict(inputs.artifacts.tools),
        placement={
            node: dict(replicas)
            for placement in placements.values()
            for node, replicas in placement.replicas.items()
        },
    )


def _dev_settings(environment: Environment) -> DevSettings:
    """The settings of an environment this project can build; raises ConfigError for others."""
    settings = environment.settings
    if isinstance(settings, DevSettings):
        return settings
    problem = environment.origin.problem(
        ("target",),
        "can be planned, but not built yet: it has no components",
        value=settings.target,
        fix=f"`slipway plan -s {environment.name}` shows its capacity, cost and latency",
    )
    raise ConfigError([problem])


def _models(
    inputs: PlanInputs, settings: DevSettings, pools: Mapping[str, Pool]
) -> tuple[list[ModelPlan], list[Problem]]:
    plans: list[ModelPlan] = []
    problems: list[Problem] = []
    for name, model in sorted(inputs.models.items()):
        deployment = settings.models[name]
        engine = plan_engine(
            model, pools[deployment.pool], inputs.catalog, inputs.artifacts.simulator_kv_bytes
        )
        if not isinstance(engine, EnginePlan):
            problems.extend(engine)
            continue
        plans.append(
            plan_model(
                model.settings,
                deployment,
                engine,
                inputs.artifacts,
                settings.autoscaling,
                load=load_of(model, inputs.traces),
            )
        )
    return plans, problems


def _placements(
    pools: tuple[Pool, ...], models: list[ModelPlan], gateway_pool: str
) -> dict[str, Placement]:
    """Every pool with all its models at their maximum."""
    return {
        pool.name: place(
            _offers(pool, holds_gateway=pool.name == gateway_pool),
            {
                model.name: (demand(model.replica), model.scaling.max_replicas)
                for model in models
                if model.pool == pool.name
            },
        )
        for pool in pools
    }


def _offers(pool: Pool, *, holds_gateway: bool) -> dict[str, Resources]:
    offers = {
        node.name: Resources(
            memory_bytes=pool.memory_bytes,
            cpu_mhz=pool.cpu_mhz,
            ports=node.max_dynamic_port - node.min_dynamic_port + 1,
            accelerators=pool.accelerators_per_node,
        )
        for node in pool.nodes
    }
    if holds_gateway:
        offers[pool.nodes[0].name] -= PLATFORM_JOBS
    return offers


def _misfits(
    inputs: PlanInputs,
    placements: Mapping[str, Placement],
    models: list[ModelPlan],
    pools: Mapping[str, Pool],
) -> list[Problem]:
    problems = []
    for model in models:
        unplaced = placements[model.pool].unplaced.get(model.name, 0)
        if not unplaced:
            continue
        pool, need = pools[model.pool], demand(model.replica)
        placed = model.scaling.max_replicas - unplaced
        problems.append(
            inputs.environment.origin.problem(
                ("models", model.name, "replicas", "max"),
                f"{unplaced} of {model.scaling.max_replicas} replicas find no room in pool"
                f' "{pool.name}": each needs {_amount(need)}; the pool has {len(pool.nodes)} x '
                f"{pool.memory_bytes // MIB} MiB and {pool.cpu_mhz} MHz, shared with the models"
                " placed there",
                value=model.scaling.max_replicas,
                fix=_fix(placed, pool),
            )
        )
    return problems


def _fix(placed: int, pool: Pool) -> str:
    lower = f"lower max to {placed}, " if placed else ""
    return f'{lower}add nodes to pool "{pool.name}", or give its nodes more `memory`'


def _amount(need: Resources) -> str:
    return f"{need.memory_bytes // MIB} MiB and {need.cpu_mhz} MHz"


def _with_surge(model: ModelPlan, placement: Placement) -> ModelPlan:
    room = room_for(
        placement.free.values(), demand(model.replica), at_most=model.scaling.max_replicas
    )
    return replace(model, surge_replicas=room)


def _gateway(settings: EnvironmentSettings, address: str, artifacts: Artifacts) -> GatewayPlan:
    return GatewayPlan(
        pool=settings.gateway.pool,
        address=address,
        port=settings.gateway.port,
        admin_port=ENVOY_ADMIN_PORT,
        xds_port=XDS_PORT,
        xds_metrics_port=XDS_HTTP_PORT,
        xds_bundle=artifacts.bundles["xds"],
        xds_environment=artifacts.environments["xds"],
    )
