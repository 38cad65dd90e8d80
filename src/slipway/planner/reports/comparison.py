"""Promised and measured side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.plan.capacity import CapacityPlan, Figure, ModelCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a running model did over a window of time; None where nothing was served."""

    window_s: int
    replicas: int
    requests_per_s: float
    output_tokens_per_s: float
    concurrency: float  # sequences running in one replica, mean over the window
    kv_cache_usage: float | None  # 0 to 1, mean of the replicas
    input_tokens: float | None  # of the mean request
    output_tokens: float | None
    ttft_ms: float | None  # means, as a plan promises them
    tpot_ms: float | None
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity of one model. `basis` says where the promise comes from."""

    model: str
    quantity: str
    unit: str
    promised: float | None
    measured: float | None
    low: float | None = None  # of the promise
    high: float | None = None
    basis: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over promised."""
        if self.promised is None or self.measured is None or not self.promised:
            return None
        return self.measured / self.promised

    @property
    def within(self) -> bool | None:
        """Whether the measurement lies inside the promise's error bars; None without both."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


def compare(plan: CapacityPlan, measured: Mapping[str, Measured]) -> tuple[Comparison, ...]:
    """Every model of the plan, in its order; what nothing was measured of stays empty."""
    return tuple(row for model in plan.models for row in _rows(model, measured.get(model.model)))


def _rows(model: ModelCapacity, seen: Measured | None) -> Iterator[Comparison]:
    yield Comparison(
        model=model.model,
        quantity="replicas",
        unit="",
        promised=model.replicas_needed.value,
        measured=None if seen is None else seen.replicas,
        low=model.min_replicas,
        high=model.max_replicas,
        basis=model.replicas_needed.basis,
    )
    yield from _serving(model, seen)
    yield Comparison(
        model=model.model,
        quantity="KV cache in use",
        unit="%",
        promised=_planned_kv_percent(model),
        measured=None if seen is None or seen.kv_cache_usage is None else 100 * seen.kv_cache_usage,
        basis="exact",
    )
    yield _of_figure(model, "cost", "USD/h", model.cost.usd_per_hour, _cost_now(model, seen))


def _serving(model: ModelCapacity, seen: Measured | None) -> Iterator[Comparison]:
    """Processors are measured, though no plan promises anything of them."""
    plan = model.serving
    yield _of_figure(
        model, "TTFT", "ms", plan.ttft_ms if plan else None, seen.ttft_ms if seen else None
    )
    yield _of_figure(
        model, "TPOT", "ms", plan.tpot_ms if plan else None, seen.tpot_ms if seen else None
    )
    yield _of_figure(
        model,
        "output tokens/s of a replica",
        "tokens/s",
        plan.decode_tokens_per_s if plan else None,
        seen.output_tokens_per_s / max(1, seen.replicas) if seen else None,
    )


def _of_figure(
    model: ModelCapacity, quantity: str, unit: str, promise: Figure | None, measured: float | None
) -> Comparison:
    row = Comparison(
        model=model.model, quantity=quantity, unit=unit, promised=None, measured=measured
    )
    if promise is None:
        return row
    return dataclasses.replace(
        row, promised=promise.value, low=promise.low, high=promise.high, basis=promise.basis
    )


def _planned_kv_percent(model: ModelCapacity) -> float | None:
    """At the concurrency that the plan expects, with requests of mean length."""
    if model.serving is None or not model.sequences_at_mean_length:
        return None
    return min(100.0, 100 * model.serving.concurrency / model.sequences_at_mean_length)


def _cost_now(model: ModelCapacity, seen: Measured | None) -> float | None:
    """The planned price of one replica times those that run."""
    if seen is None or not model.min_replicas:
        return None
    return model.cost.usd_per_hour.value / model.min_replicas * seen.replicas
