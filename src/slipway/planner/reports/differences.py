"""What a change does to a plan: every quantity that differs afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.plan.draft import AnyPlan
from slipway.plan.figures import Cost, Figure
from slipway.plan.platform import ModelPlan, PlatformPlan, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`before` is None for something new, `after` for something removed."""

    subject: str  # "models.chat", "pools.h100", "environment"
    quantity: str
    before: str | None
    after: str | None


def differences(before: PlatformPlan, after: PlatformPlan) -> tuple[Difference, ...]:
    """Ordered as in the plans: the environment, its pools, its models."""
    return tuple(
        Difference(
            subject=subject,
            quantity=quantity,
            before=old.get((subject, quantity)),
            after=new.get((subject, quantity)),
        )
        for old, new in [(_quantities(before), _quantities(after))]
        for subject, quantity in {**old, **new}
        if old.get((subject, quantity)) != new.get((subject, quantity))
    )


def all_warnings(plan: AnyPlan) -> tuple[str, ...]:
    """Of the environment, then of its models."""
    of_models = (f"{model.name}: {warning}" for model in plan.models for warning in model.warnings)
    return (*plan.warnings, *of_models)


def new_warnings(before: PlatformPlan, after: PlatformPlan) -> tuple[str, ...]:
    known = all_warnings(before)
    return tuple(warning for warning in all_warnings(after) if warning not in known)


def _quantities(plan: PlatformPlan) -> dict[tuple[str, str], str]:
    found = {("environment", name): value for name, value in _environment(plan)}
    for pool in plan.pools:
        found |= {(f"pools.{pool.name}", name): value for name, value in _pool(pool)}
    for model in plan.models:
        found |= {(f"models.{model.name}", name): value for name, value in _model(model)}
    return found


def _environment(plan: PlatformPlan) -> Iterator[tuple[str, str]]:
    yield from _cost(plan.cost)
    yield "servers", str(len(plan.servers))
    if plan.gateway.clients.host:
        yield "gateway", plan.gateway.clients.url


def _cost(cost: Cost) -> Iterator[tuple[str, str]]:
    yield "cost", _amount(cost.usd_per_hour)
    yield "cost a month", _amount(cost.usd_per_month)
    if cost.usd_per_million_output_tokens is not None:
        yield "cost of tokens", _amount(cost.usd_per_million_output_tokens)


def _pool(pool: Pool) -> Iterator[tuple[str, str]]:
    if pool.hosts:
        yield "nodes", ", ".join(f"{host.name} {host.address}" for host in pool.hosts)
    else:
        yield "nodes", f"{pool.nodes_min} to {pool.nodes_max}"
    yield "accelerators at the minimum", str(pool.accelerators_used)
    yield "accelerators at the maximum", str(pool.accelerators_used_at_most)
    yield "cost", _amount(pool.usd_per_hour)


def _model(model: ModelPlan) -> Iterator[tuple[str, str]]:
    layout = model.layout
    yield "pool", model.pool
    yield "job", model.stable.job_id
    yield "devices of a replica", f"{layout.devices} x {model.accelerator or 'processor'}"
    yield "precision", f"{model.precision.weights}, KV {model.precision.kv}"
    yield "KV tokens", f"{model.memory.kv_tokens:,}"
    yield "replicas needed", f"{model.replicas_needed.value:.0f}"
    yield "replicas", f"{model.stable.scaling.min_replicas} to {model.stable.scaling.max_replicas}"
    if model.serving is not None:
        yield "TTFT", _amount(model.serving.ttft_ms)
        yield "TPOT", _amount(model.serving.tpot_ms)
        yield "a replica sustains", _amount(model.serving.requests_per_s)
    if model.meets_goal is not None:
        yield "goal", "met" if model.meets_goal else "missed"
    yield "startup", _amount(model.cold_start.total_s)
    yield from _cost(model.cost)


def _amount(figure: Figure) -> str:
    digits = 2 if abs(figure.value) < 100 else 0
    return f"{figure.value:,.{digits}f} {figure.unit}"
