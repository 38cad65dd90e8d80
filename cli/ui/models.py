"""The rows of models: whether each serves, with which replicas, how fast, and why so many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from cli.applied import AppliedModel
from cli.clusters.served import Served
from cli.ui.counts import in_flight, why
from cli.ui.observation import JobCount, Observation
from cli.ui.page import Measure, ModelRow, State, Tone
from cli.ui.wording import NOTHING, bounds, figure, milliseconds

Document = Mapping[str, Any]


def model_rows(seen: Observation) -> Iterator[ModelRow]:
    status = seen.status
    sees_envoy = "envoy" not in status["unreachable"]
    flying = in_flight(status["endpoints"])
    running = _allocations_by_job(status)
    counts_of = defaultdict[str, list[JobCount]](list)
    for count in seen.counts:
        counts_of[count.model].append(count)
    for model in seen.applied.models:
        told, counts = status["models"][model.name], counts_of[model.name]
        yield _model(
            model,
            told,
            counts,
            running=sum(running[count.job] for count in counts),
            flying=flying[model.name] if sees_envoy else None,
            measured=seen.served.get(model.name, Served()),
            seen=seen,
        )


def _model(
    model: AppliedModel,
    told: Document,
    counts: list[JobCount],
    *,
    running: int,
    flying: int | None,
    measured: Served,
    seen: Observation,
) -> ModelRow:
    wanted = sum(count.wanted for count in counts)
    blind = bool(seen.status["autoscaler_blind"])
    scaling = model.scaling
    return ModelRow(
        id=f"model-{model.name}",
        name=model.name,
        aliases=", ".join(model.aliases),
        state=_state_of_model(told, seen.status, running=running, wanted=wanted),
        ready=told["ready"],
        routed=told["acknowledged"],
        running=running // model.members,
        replicas=f"{running // model.members} of {wanted // model.members}" if counts else NOTHING,
        bounds=bounds(scaling.min_replicas, scaling.max_replicas) if scaling else "",
        why=why(model, counts, flying, seen.at_s, blind=blind) if seen.status["running"] else "",
        in_flight=flying,
        requests_per_s=figure(measured.requests_per_s),
        tokens_per_s=figure(measured.output_tokens_per_s),
        ttft=_measure(measured.ttft_p95_ms, model.goal.ttft_p95_ms),
        tpot=_measure(measured.tpot_p95_ms, model.goal.tpot_p95_ms),
    )


def _state_of_model(told: Document, status: Document, *, running: int, wanted: int) -> State:
    if "xds" in status["unreachable"]:
        return State(word="unknown", tone=Tone.WARN)
    if told["ready"] and told["acknowledged"]:
        return State(word="serves", tone=Tone.OK) if running >= wanted else _SHORT
    if told["ready"]:
        return State(word="ready, not routed", tone=Tone.WARN)
    if running < wanted:
        return State(word="starting", tone=Tone.WARN)
    return State(word="does not serve", tone=Tone.BAD)


_SHORT = State(word="serves, short of replicas", tone=Tone.WARN)


def _measure(value_ms: float | None, goal_ms: int | None) -> Measure:
    goal = f"≤ {milliseconds(goal_ms)}" if goal_ms is not None else ""
    if value_ms is None or goal_ms is None:
        return Measure(text=milliseconds(value_ms), goal=goal)
    tone = Tone.OK if value_ms <= goal_ms else Tone.BAD
    return Measure(text=milliseconds(value_ms), goal=goal, tone=tone)


def _allocations_by_job(status: Document) -> Counter[str]:
    return Counter(each["job"] for each in status["replicas"] if each["status"] == "running")
