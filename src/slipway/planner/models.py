"""One model as it will be served: its replica, scaling bounds, limits and promises."""

from __future__ import annotations

import datetime
from functools import partial

from slipway.architectures.parameters import count
from slipway.config.errors import raise_if_any
from slipway.config.load import Load
from slipway.config.model import Model, ModelSettings
from slipway.config.settings import AutoscalingSettings, Deployment
from slipway.inputs import PlanInputs
from slipway.plan.draft import ModelDraft, RouteLimits
from slipway.plan.platform import ContainerSpec, JsonObject, PlannedLoad, ReplicaSpec, ScalingSpec

from .engines.adapter import EnginePlan
from .engines.registry import engine_of
from .fabric.environment import member_environment
from .fleet.cost import aged
from .fleet.option import Option, sequences_at_mean_length
from .fleet.placed import Placed
from .fleet.replicas import utilization
from .fleet.warnings import model_warnings
from .peers import plan_proxy
from .replica import replica_spec, whole_mib
from .routing import plan_routing
from .stall import stall_problems, stall_s
from .supply.supply import Supply
from .units import GIB

# Requests per replica that the gateway admits before it answers 429: enough to keep the engine's
# batch full until the autoscaler reacts.
MIN_CONCURRENT_REQUESTS = 64
CONCURRENT_REQUESTS_PER_SEQUENCE = 2

# Of a container: for Triton, and for each device, whose worker exchanges tensors with the others'
# (NVIDIA's images of Triton and of PyTorch ask for --shm-size=1g). A bound, not a reservation.
SHARED_MEMORY_BYTES = GIB


def plan_model(
    inputs: PlanInputs, placed: Placed, *, surge_replicas: int, today: datetime.date | None
) -> ModelDraft:
    """The model on its pool, which has room for `surge_replicas` beside every model's maximum. Its
    price has its age at `today`."""
    demand, option = placed.demand, placed.option
    model, deployment = (
        inputs.models[demand.model],
        inputs.environment.settings.models[demand.model],
    )
    settings, engine = model.settings, _engine(model, option)
    replica = _replica(inputs, placed, engine)
    parameters = count(demand.architecture)
    scaling = _scaling(settings, deployment, inputs.environment.settings.autoscaling)
    return ModelDraft(
        name=settings.name,
        aliases=settings.aliases,
        architecture=demand.architecture_name,
        license=engine.license,
        pool=option.supply.pool,
        accelerator=option.supply.accelerator_name,
        accelerator_vendor=_vendor(option),
        instance=option.supply.instance,
        layout=option.layout,
        precision=demand.precision,
        protocols=engine.protocols,
        replica=replica,
        scaling=scaling,
        surge=deployment.surge,
        surge_replicas=surge_replicas,
        limits=_limits(settings),
        routing=plan_routing(settings, scaling.target_inflight_per_replica),
        goal=demand.goal,
        load=None if demand.load is None else _planned(demand.load),
        memory=option.memory,
        parameters=parameters.total,
        active_parameters=parameters.active,
        sequences_at_mean_length=sequences_at_mean_length(option),
        replicas_needed=option.replicas_needed,
        utilization=utilization(demand.load, option.serving, demand.min_replicas),
        serving=option.serving,
        meets_goal=option.meets_goal,
        cold_start=option.cold_start,
        cost=aged(option.cost, today),
        refused=placed.refused,
        warnings=tuple(model_warnings(placed)),
    )


def _engine(model: Model, option: Option) -> EnginePlan:
    """What each replica runs on its pool."""
    adapter, architecture = engine_of(model), option.demand.architecture
    supply, replica = option.supply, option.on_processors
    if replica is not None:
        return adapter.on_processors(model, architecture, supply, replica)
    return adapter.on_accelerators(model, architecture, supply, option.layout)


def _longest_step_s(inputs: PlanInputs, model: Model, option: Option) -> float:
    return engine_of(model).longest_step_s(
        model,
        option.demand.architecture,
        option.supply,
        layout=option.layout,
        memory=option.memory,
        artifacts=inputs.artifacts,
    )


def _replica(inputs: PlanInputs, placed: Placed, engine: EnginePlan) -> ReplicaSpec:
    """What the chosen option needs from the pool's nodes."""
    model, artifacts = inputs.models[placed.demand.model], inputs.artifacts
    settings, longest_step_s = model.settings, _longest_step_s(inputs, model, placed.option)
    stated_s = settings.routing.stall_s
    raise_if_any(list(stall_problems(longest_step_s, stated_s, model.origin)))
    supply, layout = placed.option.supply, placed.option.layout
    per_node = supply.accelerators_per_node
    spec = partial(
        replica_spec,
        settings,
        engine,
        artifacts,
        nodes=supply.hosts_of(layout),
        group=_group(settings, placed.option),
        longest_step_s=longest_step_s,
        stall_s=stall_s(longest_step_s, stated_s),
        proxy=plan_proxy(supply, inputs.environment.name, artifacts),
        store=_store(supply, engine),
    )
    if not per_node:
        return spec()
    return spec(
        devices=layout.devices_on_each_node(per_node),
        vendor=supply.device.vendor,
        driver=engine_of(model).drivers.get(supply.device.vendor, ""),
        container=_container(supply, engine, layout.devices_on_each_node(per_node)),
    )


def _group(settings: ModelSettings, option: Option) -> JsonObject | None:
    """What the members of a replica over several hosts know of their group. A member may have to
    fetch the weights first: the others wait for it as long as that may take."""
    fabric, members = option.supply.fabric, option.supply.hosts_of(option.layout)
    if members == 1:
        return None
    variables = member_environment(fabric, vendor=_vendor(option), layout=option.layout)
    return {
        "members": members,
        "silence_s": fabric.member_silence_s,
        "formation_s": settings.timeouts.load_s,
        **({"interface": fabric.interfaces[0]} if fabric.interfaces else {}),
        **({"environment": {each.name: each.value for each in variables}} if variables else {}),
    }


def _container(supply: Supply, engine: EnginePlan, devices: int) -> ContainerSpec | None:
    """A container may use its devices' share of a node's memory, and at least what it asks for."""
    if supply.image is None:
        return None
    share = supply.node_memory_bytes * devices // supply.accelerators_per_node
    return ContainerSpec(
        image=supply.image.name,
        memory_limit_bytes=max(share, whole_mib(engine.host_memory_bytes)),
        shared_memory_bytes=(1 + devices) * SHARED_MEMORY_BYTES,
    )


def _store(supply: Supply, engine: EnginePlan) -> str:
    """The pool's model store has what hosts fetch; what is delivered to them is in the runtime
    folder."""
    fetched = engine.weights is not None and engine.weights.fetched_by_hosts
    return supply.model_store.path if fetched and supply.model_store else ""


def _vendor(option: Option) -> str:
    accelerator = option.supply.accelerator
    return "" if accelerator is None else accelerator.vendor


def _planned(load: Load) -> PlannedLoad:
    return PlannedLoad(
        requests_per_s=load.requests_per_s,
        input_tokens=load.input_tokens.mean,
        output_tokens=load.output_tokens.mean,
    )


def _scaling(
    settings: ModelSettings, deployment: Deployment, autoscaling: AutoscalingSettings
) -> ScalingSpec:
    return ScalingSpec(
        min_replicas=deployment.replicas.min,
        max_replicas=deployment.replicas.max,
        target_inflight_per_replica=_target_inflight(settings, autoscaling),
        cooldown_s=autoscaling.cooldown_s,
    )


def _target_inflight(settings: ModelSettings, autoscaling: AutoscalingSettings) -> int:
    """Requests in flight for which one replica is enough."""
    half_batch = max(1, settings.engine.max_num_seqs // 2)
    return autoscaling.target_inflight_per_replica or half_batch


def _concurrent_requests(settings: ModelSettings) -> int:
    """Requests in flight per replica that the gateway lets in."""
    return max(
        MIN_CONCURRENT_REQUESTS, CONCURRENT_REQUESTS_PER_SEQUENCE * settings.engine.max_num_seqs
    )


def _limits(settings: ModelSettings) -> RouteLimits:
    return RouteLimits(
        max_concurrent_requests_per_replica=_concurrent_requests(settings),
        stream_idle_timeout_s=settings.timeouts.stream_idle_s,
        max_stream_duration_s=settings.timeouts.drain_s,
    )
