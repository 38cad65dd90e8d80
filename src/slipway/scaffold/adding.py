"""Adds a model to an environment: the first candidate whose plan keeps its promises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slipway.config.errors import ConfigError
from slipway.config.model import Model, TimeoutSettings
from slipway.inputs import PlanInputs
from slipway.plan.draft import ModelDraft, PlatformDraft

from .candidates import Candidate, candidates
from .growth import what_would_fit
from .promises import Broken, broken_promises
from .request import RefusedError, Request, Values, must_be_valid
from .surroundings import Surroundings

REPLICAS_ON_ONE_MACHINE = ((1, 2), (1, 1))
REPLICAS_OF_A_FLEET = ((2, 3), (2, 2))  # with one, every crash is an outage (policy single-replica)
# Of processors that are owned: a small installation may have room for one only.
REPLICAS_ON_FEW_HOSTS = (*REPLICAS_OF_A_FLEET, *REPLICAS_ON_ONE_MACHINE)
LOADING_MARGIN = 2  # times the estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """`model` are the values of the model file, None where it is there already; `deployment` are
    those of its entry in the stack file. `inputs` are the environment's with it, and `draft` is
    their plan."""

    name: str
    model: Values | None
    deployment: Values
    inputs: PlanInputs
    draft: PlatformDraft

    @property
    def planned(self) -> ModelDraft:
        return next(each for each in self.draft.models if each.name == self.name)


def add_model(request: Request, surroundings: Surroundings) -> Addition:
    """Raises RefusedError with what would fit, or what is wrong with the request."""
    must_be_valid(request)
    pools = surroundings.serving_pools(request)
    ways = candidates(request, pools, surroundings.inputs)
    made = _first(request, ways, surroundings)
    if isinstance(made, Addition):
        return made

    def cost_in(others: Surroundings) -> float | None:
        """Of the environment in USD/h, None where the model does not fit into it either."""
        elsewhere = _first(request, ways, others)
        return elsewhere.draft.cost.usd_per_hour.value if isinstance(elsewhere, Addition) else None

    raise what_would_fit(request, pools, surroundings, made, cost_in=cost_in)


def _first(
    request: Request, ways: Sequence[Candidate], surroundings: Surroundings
) -> Addition | list[Broken]:
    """The first candidate that keeps the promises, or why none does. Where the planner prefers a
    pool without room, the others of the candidate are tried."""
    found: list[Broken] = []
    too_many: dict[str, int] = {}  # devices of a replica for which a pool has no room
    for candidate in ways:
        pools = _with_room(candidate, candidate.pools, too_many)
        while pools:
            made = _planned(request, replace(candidate, pools=pools), surroundings)
            if isinstance(made, Addition):
                return made
            # On processors the last attempt is the one that asks for least.
            accelerated = surroundings.supplies[pools[0]].accelerator is not None
            found += made if accelerated else made[-1:]
            for pool in {each.full_pool for each in made if each.full_pool}:
                too_many[pool] = min(candidate.devices, too_many.get(pool, candidate.devices))
            left = _with_room(candidate, pools, too_many)
            pools = left if len(left) < len(pools) else ()
    return found


def _with_room(
    candidate: Candidate, pools: Sequence[str], too_many: Mapping[str, int]
) -> tuple[str, ...]:
    most = candidate.devices
    return tuple(pool for pool in pools if most < too_many.get(pool, most + 1))


def add_existing(request: Request, file: Model, surroundings: Surroundings) -> Addition:
    """Serves the model of a file that is there, as it is. Raises RefusedError with what would fit,
    which may be a file of its own for these pools."""
    pools = [each.pool for each in surroundings.serving_pools(request)]
    alone = {pool: _with_enough_replicas(request, (pool,), file, surroundings) for pool in pools}
    holding = [pool for pool, made in alone.items() if isinstance(made, Addition)]
    if len(holding) > 1 and not surroundings.on_this_machine:
        made = _with_enough_replicas(request, tuple(holding), file, surroundings)
        if isinstance(made, Addition):
            return made
    for pool in holding:
        made = alone[pool]
        if isinstance(made, Addition):
            return made
    add_model(request, surroundings)  # refused, where no file would do
    reasons = [each.why for made in alone.values() if isinstance(made, list) for each in made]
    raise RefusedError(
        f"{file.origin.source} does not fit the pools of this environment: {reasons[0]}",
        fix=f"add --name {request.name}-2: a file that fits these pools is then written",
    )


def _planned(
    request: Request, candidate: Candidate, surroundings: Surroundings
) -> Addition | list[Broken]:
    """The candidate, where its plan keeps the promises."""
    model = _model(request, candidate)
    made = _with_enough_replicas(request, candidate.pools, model, surroundings)
    if isinstance(made, Addition):
        return _with_time_to_load(request, model, made, surroundings)
    return made


def _with_enough_replicas(
    request: Request, pools: tuple[str, ...], model: Values | Model, surroundings: Surroundings
) -> Addition | list[Broken]:
    """With the first numbers of replicas that keep the promises; those for the load where it needs
    more than are usual."""
    found: list[Broken] = []
    enough, numbers = 0, _replicas(request, pools, surroundings)
    while True:
        needed = 0
        for replicas in numbers:
            made = _attempt(request, model, _deployment(pools, replicas), surroundings)
            if isinstance(made, Addition):
                return made
            found += made
            needed = max(needed, *(each.replicas for each in made))
        if needed <= enough or request.replicas is not None:
            return found
        # With more replicas the planner may choose another layout, which needs more again.
        enough, numbers = needed, ((needed, needed + 1), (needed, needed))


def _attempt(
    request: Request, model: Values | Model, deployment: Values, surroundings: Surroundings
) -> Addition | list[Broken]:
    """`model` are the values of a new file, or a file that is there."""
    try:
        inputs = surroundings.joined_by(request, model, deployment)
        draft = surroundings.draft(inputs)
    except ConfigError as error:
        return _as_broken(error, request)
    broken = [*broken_promises(draft, request.name, surroundings.usd_per_hour)]
    values = None if isinstance(model, Model) else model
    return broken or Addition(
        name=request.name, model=values, deployment=deployment, inputs=inputs, draft=draft
    )


def _as_broken(error: ConfigError, request: Request) -> list[Broken]:
    """Problems of this model first; those of others say whose they are."""
    mine, others = [], []
    for each in error.problems:
        is_own = each.source.endswith(f"/{request.name}.yaml") or f".{request.name}." in each.key
        if is_own or not each.key:
            # Without numbers of their own, others were tried.
            fix = each.fix if request.replicas is not None else ""
            mine.append(Broken(why=each.message, fix=fix))
        else:
            others.append(Broken(why=f"{each.key}: {each.message}"))
    return [*mine, *others]


def _model(request: Request, candidate: Candidate) -> Values:
    weights, engine = request.weights, dict(candidate.engine)
    if weights.stated is not None:
        kind = engine.pop("kind")
        engine = {"kind": kind, "architecture": weights.stated, **engine}
    sections = {
        "source": weights.source,
        "license": request.license,
        "engine": engine,
        "parallel": candidate.parallel,
        "slo": request.goal,
        "load": request.load,
    }
    return {"name": request.name, **{key: each for key, each in sections.items() if each}}


def _with_time_to_load(
    request: Request, model: Values, made: Addition, surroundings: Surroundings
) -> Addition:
    """A model that loads for long gets a deadline beyond it, in whole minutes."""
    if not made.planned.accelerator:
        return made
    estimate_s = made.planned.cold_start.total_s.value
    if LOADING_MARGIN * estimate_s <= TimeoutSettings().load_s:
        return made
    load_s = 60 * math.ceil(LOADING_MARGIN * estimate_s / 60)
    patient = {**model, "timeouts": {"load_s": load_s}}
    slower = _attempt(request, patient, made.deployment, surroundings)
    return slower if isinstance(slower, Addition) else made


def _deployment(pools: tuple[str, ...], replicas: tuple[int, int]) -> Values:
    least, most = replicas
    where: dict[str, object] = {"pool": pools[0]} if len(pools) == 1 else {"pools": list(pools)}
    return {**where, "replicas": {"min": least, "max": most}}


def _replicas(
    request: Request, pools: tuple[str, ...], surroundings: Surroundings
) -> tuple[tuple[int, int], ...]:
    """The numbers to try."""
    if request.replicas is not None:
        return (request.replicas,)
    if surroundings.on_this_machine:
        return REPLICAS_ON_ONE_MACHINE
    accelerated = surroundings.supplies[pools[0]].accelerator is not None
    return REPLICAS_OF_A_FLEET if accelerated else REPLICAS_ON_FEW_HOSTS
