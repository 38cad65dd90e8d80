"""What the plan of the environment's files would buy for a measured load."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from cli.bench.measurement import Measured
from cli.bench.workload import Workload
from cli.environment import Environment
from cli.protocols.names import PROTOCOL_NAMES
from slipway.config.errors import ConfigError
from slipway.config.load import Lengths
from slipway.config.what_if import Change
from slipway.inputs import load_inputs_without_certificate
from slipway.plan.platform import LatencyGoal
from slipway.planner.reports.sizing import size
from slipway.planner.wording import counted
from stacks.planning import make_plan


def sizing_of(
    environment: Environment,
    model: str,
    workload: Workload,
    measured: Sequence[Measured],
    goal: LatencyGoal | None,
) -> dict[str, Any] | None:
    """The sizing for a trace's own load, or else for the most that the model served, within its
    goal if it was ever met. None where nothing was answered. `sentence` says it all."""
    found = _load(workload, measured, goal)
    if found is None:
        return None
    if isinstance(found, str):
        return {"sentence": found}
    load, of_load = found
    try:
        inputs = load_inputs_without_certificate(
            environment.checkout,
            environment.name,
            changes=[Change(key=("load",), value=load, model=model)],
        )
        sized = size(make_plan(inputs, today=_today()), model, of_load=of_load)
    except ConfigError as error:
        first, *_ = error.problems
        sentence = f"For {of_load}, the plan has no room: {first.place_and_message}; {first.fix}"
        return {"sentence": sentence}
    return dataclasses.asdict(sized)


def within(goal: LatencyGoal | None, measured: Measured) -> bool | None:
    """Whether all requests were answered, with TTFT and TPOT at p95 within the goal; None without a
    goal, or where nothing can be compared with it."""
    figures = measured.figures
    if goal is None or (goal.ttft_p95_ms is None and goal.tpot_p95_ms is None):
        return None
    if figures.errors:
        return False
    times = [(goal.ttft_p95_ms, figures.ttft_ms), (goal.tpot_p95_ms, figures.tpot_ms)]
    compared = [seen.p95 <= most for most, seen in times if most is not None and seen is not None]
    return all(compared) if compared else None


def _load(
    workload: Workload, measured: Sequence[Measured], goal: LatencyGoal | None
) -> tuple[dict[str, Any], str] | str | None:
    """The load as a model file writes it, and in words; or why it is unknown."""
    if workload.load is not None:
        traced = workload.load
        return (
            _written(traced.requests_per_s, traced.input_tokens, traced.output_tokens),
            f"the trace's {traced.requests_per_s:.3g} requests/s",
        )
    answered = [each for each in measured if each.figures.answered]
    if not answered:
        return None
    whole = [each for each in answered if not each.figures.errors]
    met = [each for each in whole if within(goal, each)]
    most = max(met or whole or answered, key=lambda each: each.figures.requests_per_s)
    figures = most.figures
    if figures.input_tokens is None or figures.output_tokens is None:
        return "There is nothing to size for: the engine did not count the tokens of the prompts"
    input_tokens, output_tokens = (
        max(1, round(tokens)) for tokens in (figures.input_tokens, figures.output_tokens)
    )
    return (
        _written(figures.requests_per_s, _same(input_tokens), _same(output_tokens)),
        f"{figures.requests_per_s:.3g} requests/s of {input_tokens:,} + {output_tokens:,} tokens"
        f" (the most it served {_how(goal, most)}: {counted(most.step.clients, 'client')} over"
        f" {PROTOCOL_NAMES[most.step.protocol]})",
    )


def _how(goal: LatencyGoal | None, most: Measured) -> str:
    if most.figures.errors:
        return "among errors"
    met = within(goal, most)
    return "at all" if met is None else "within its goal" if met else "beyond its goal"


def _written(requests_per_s: float, *lengths: Lengths) -> dict[str, Any]:
    input_tokens, output_tokens = ({"p50": each.p50, "p95": each.p95} for each in lengths)
    return {
        "requests_per_s": requests_per_s,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }


def _same(tokens: int) -> Lengths:
    return Lengths(p50=tokens, p95=tokens)


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()
