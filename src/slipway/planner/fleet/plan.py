"""Places every model on the cheapest of its pools and layouts that has room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from slipway.config.document import KeyPath
from slipway.config.errors import Problem, raise_if_any
from slipway.config.settings import Deployment, EnvironmentSettings
from slipway.inputs import PlanInputs
from slipway.plan.figures import Layout, Refusal
from slipway.planner.calibration import Calibration, calibration_of
from slipway.planner.engines.adapter import ProcessorReplica
from slipway.planner.engines.registry import engine_of
from slipway.planner.groups import GroupProblem, host_problems, pool_problems, stage_problems
from slipway.planner.supply.supply import Supply

from .advice import NO_ROOM, advice
from .choice import best_options, every_option, ranked
from .demand import Demand, plan_demand, plan_processor_demand
from .occupancy import Choices, assign
from .option import Option, with_errors
from .placed import Placed
from .processors import processor_option

# The sections of a model file that decide where the model fits.
CAUSES = ("parallel", "engine")


def place_models(inputs: PlanInputs, supplies: Mapping[str, Supply]) -> list[Placed]:
    """Models by name. Models with the fewest pools choose first. Raises ConfigError with every
    problem."""
    calibration = calibration_of(inputs)
    choices: dict[str, Choices] = {}
    problems: list[Problem] = []
    for name in sorted(inputs.models):
        made = _choices(inputs, supplies, name, calibration)
        if isinstance(made, Choices):
            choices[name] = made
        else:
            problems += made
    raise_if_any(problems)
    placed: list[Placed] = []
    settings = inputs.environment.settings
    for name in sorted(choices, key=lambda name: (len(settings.models[name].candidates), name)):
        where = assign(choices[name], placed)
        if isinstance(where, Placed):
            placed.append(replace(where, option=with_errors(where.option, calibration)))
        elif choices[name].best:
            problems.append(_full(inputs, name, where))
        else:
            problems.append(_nowhere(inputs, name, supplies, where))
    raise_if_any(problems)
    return sorted(placed, key=lambda each: each.demand.model)


def _choices(
    inputs: PlanInputs, supplies: Mapping[str, Supply], name: str, calibration: Calibration
) -> Choices | list[Problem]:
    """The options of all pools that the model may run on. A setting that one kind of pool does not
    support is a problem only if no other kind can serve the model."""
    candidates = [supplies[pool] for pool in inputs.environment.settings.models[name].candidates]
    with_accelerators = [supply for supply in candidates if supply.accelerator is not None]
    choices, problems = _accelerator_choices(inputs, with_accelerators, name, calibration)
    ruled_out = len(with_accelerators) if problems else 0  # by the model's own file
    options: list[Option] = []
    refused = list(choices.refused)
    for supply in candidates:
        if supply.accelerator is None:
            made = _on_processors(inputs, supply, name, calibration)
            if isinstance(made, Option):
                options.append(made)
            else:
                problems += made
                ruled_out += 1
                refused.append(_refused(supply, made))
    if ruled_out == len(candidates):
        return problems
    return Choices(
        best=ranked([*choices.best, *options]),
        every=lambda: ranked([*choices.every(), *options]),
        refused=refused,
    )


def _accelerator_choices(
    inputs: PlanInputs, supplies: Sequence[Supply], name: str, calibration: Calibration
) -> tuple[Choices, list[Problem]]:
    """(the options on accelerators, contradictions in the model's file)."""
    deployment = inputs.environment.settings.models[name]
    if not supplies:
        return Choices(best=(), every=tuple, refused=()), []
    demand = plan_demand(inputs.models[name], deployment, inputs.catalog.models, inputs.traces)
    if not isinstance(demand, Demand):
        refused = [_refused(supply, demand) for supply in supplies]
        return Choices(best=(), every=tuple, refused=refused), demand
    if problem := _split_problem(inputs, demand, supplies):
        refused = [_refused(supply, [problem]) for supply in supplies]
        return Choices(best=(), every=tuple, refused=refused), [problem]
    detected_s = detection_s(inputs.environment.settings)
    best, refused = best_options(demand, supplies, detection_s=detected_s, calibration=calibration)
    every = partial(every_option, demand, supplies, detection_s=detected_s, calibration=calibration)
    return Choices(best=best, every=every, refused=refused), []


def _split_problem(
    inputs: PlanInputs, demand: Demand, supplies: Sequence[Supply]
) -> Problem | None:
    """A stated layout that none of the pools can have on its hosts is a mistake of the model's
    file."""
    layout = demand.layout
    if layout is None:
        return None
    found = [next(_group_problems(demand, layout, supply), None) for supply in supplies]
    problems = [each for each in found if each is not None]
    if len(problems) < len(supplies):
        return None
    model, first = inputs.models[demand.model], problems[0]
    fixes = {each.fix: None for each in problems}
    if first.size == "tensor":
        fixes = {advice(demand, supplies, model.origin.source): None}
    return model.origin.problem(
        ("parallel", first.size),
        "; ".join(dict.fromkeys(each.reason for each in problems)),
        value=getattr(layout, first.size),
        fix="; or ".join(fixes),
    )


def _group_problems(demand: Demand, layout: Layout, supply: Supply) -> Iterator[GroupProblem]:
    """Nothing of an accelerator that the engine does not serve at all: that is the reason then."""
    if demand.engine.accelerator_problems(supply.accelerator_name, supply.device):
        return
    yield from stage_problems(demand.architecture.layers, layout.pipeline)
    yield from host_problems(layout, supply.accelerators_per_node)
    yield from pool_problems(layout, supply)


def _on_processors(
    inputs: PlanInputs, supply: Supply, name: str, calibration: Calibration
) -> Option | list[Problem]:
    model, deployment = inputs.models[name], inputs.environment.settings.models[name]
    demand = plan_processor_demand(model, deployment, inputs.catalog.models, inputs.traces)
    if not isinstance(demand, Demand):
        return demand
    replica = engine_of(model).processor_replica(
        model, demand.architecture, supply, inputs.artifacts
    )
    if not isinstance(replica, ProcessorReplica):
        return replica
    return processor_option(model, demand, supply, replica, calibration)


def _refused(supply: Supply, problems: Iterable[Problem]) -> Refusal:
    reasons = tuple(f"{problem.key} {problem.message}" for problem in problems)
    return Refusal(pool=supply.pool, reasons=reasons)


def detection_s(settings: EnvironmentSettings) -> float:
    """The longest time until the autoscaler sees a growing load: one scrape and one evaluation,
    both just missed."""
    scrape, evaluation = settings.monitoring, settings.autoscaling
    return float(scrape.scrape_interval_s + evaluation.evaluation_interval_s)


def _nowhere(
    inputs: PlanInputs, name: str, supplies: Mapping[str, Supply], refused: Iterable[Refusal]
) -> Problem:
    """A model that fits on none of its pools; its own file is the cause where it was changed."""
    model, deployment = inputs.models[name], inputs.environment.settings.models[name]
    demand = plan_demand(model, deployment, inputs.catalog.models, inputs.traces)
    assert isinstance(demand, Demand), "its options were tried"  # noqa: S101
    candidates = (supplies[pool] for pool in deployment.candidates)
    fix = advice(
        demand,
        [supply for supply in candidates if supply.accelerator is not None],
        model.origin.source,
    )
    message = _why_nowhere(name, refused)
    for key in model.origin.replaced:
        if key[0] in CAUSES:
            return model.origin.problem(key, message, fix=fix)
    return inputs.environment.origin.problem(_pools_key(deployment, name), message, fix=fix)


def _full(inputs: PlanInputs, name: str, refused: Iterable[Refusal]) -> Problem:
    """A model that fits on a pool, but not beside the others."""
    key = _pools_key(inputs.environment.settings.models[name], name)
    message = _why_nowhere(name, refused)
    return inputs.environment.origin.problem(key, message, fix=NO_ROOM)


def _pools_key(deployment: Deployment, name: str) -> KeyPath:
    return "models", name, "pools" if getattr(deployment, "pools", ()) else "pool"


def _why_nowhere(name: str, refused: Iterable[Refusal]) -> str:
    pools: dict[str, list[str]] = {}  # by reason: several often have the same
    for refusal in refused:
        for reason in refusal.reasons:
            pools.setdefault(reason, []).append(refusal.pool)
    reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in pools.items())
    return f"cannot run {name}: {reasons}"
