"""Promised and measured values side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.plan.figures import Basis, Figure
from slipway.plan.platform import ModelPlan, PlatformPlan
from slipway.planner.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDevices:
    """The accelerators of a model's replicas, as their driver tells it."""

    models: tuple[str, ...]
    drivers: tuple[str, ...]  # versions
    used_bytes: int | None  # memory in use on the fullest, now; None where it is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of a running model over a time window; None where it served nothing."""

    window_s: int
    jobs: tuple[str, ...]  # IDs of the jobs whose replicas run
    replicas: int
    requests_per_s: float
    output_tokens_per_s: float
    concurrency: float  # sequences running in one replica, mean over the window
    kv_cache_usage: float | None  # 0 to 1, mean over the replicas
    kv_tokens: int | None  # of the replica that has the fewest, now
    devices: MeasuredDevices | None  # None on processors, and where nothing is known of them
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
    low: float | None = None  # bounds of the promise
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedName:
    """What a model should run on, and what its replicas run on; "" where it is not known."""

    model: str
    quantity: str
    promised: str
    measured: str


def compare(plan: PlatformPlan, measured: Mapping[str, Measured]) -> tuple[Comparison, ...]:
    """Every model in the plan's order; values that were not measured stay empty."""
    return tuple(row for model in plan.models for row in _rows(model, measured.get(model.name)))


def compare_names(plan: PlatformPlan, measured: Mapping[str, Measured]) -> tuple[ComparedName, ...]:
    """The devices of every model on accelerators, in the plan's order."""
    return tuple(
        name
        for model in plan.models
        if model.accelerator
        for name in _names(model, measured.get(model.name))
    )


def _names(model: ModelPlan, seen: Measured | None) -> Iterator[ComparedName]:
    devices = None if seen is None else seen.devices
    least = model.replica.driver
    for quantity, promised, found in (
        ("device", model.accelerator, devices and devices.models),
        ("driver", f"at least {least}" if least else "", devices and devices.drivers),
    ):
        yield ComparedName(
            model=model.name,
            quantity=quantity,
            promised=promised,
            measured=", ".join(found or ()),
        )


def _rows(model: ModelPlan, seen: Measured | None) -> Iterator[Comparison]:
    yield Comparison(
        model=model.name,
        quantity="replicas",
        unit="",
        promised=model.replicas_needed.value,
        measured=None if seen is None else seen.replicas,
        low=model.stable.scaling.min_replicas,
        high=model.stable.scaling.max_replicas,
        basis=model.replicas_needed.basis,
    )
    yield from _serving(model, seen)
    yield _kv_tokens(model, seen)
    yield Comparison(
        model=model.name,
        quantity="KV cache in use",
        unit="%",
        promised=_planned_kv_percent(model),
        measured=None if seen is None or seen.kv_cache_usage is None else 100 * seen.kv_cache_usage,
        basis="exact",
    )
    if model.accelerator:
        yield _device_memory(model, seen)
    yield _of_figure(model, "cost", "USD/h", model.cost.usd_per_hour, _cost_now(model, seen))


def _serving(model: ModelPlan, seen: Measured | None) -> Iterator[Comparison]:
    """Models on processors are measured too, though the plan promises nothing for them."""
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
    model: ModelPlan, quantity: str, unit: str, promise: Figure | None, measured: float | None
) -> Comparison:
    row = Comparison(
        model=model.name, quantity=quantity, unit=unit, promised=None, measured=measured
    )
    if promise is None:
        return row
    return dataclasses.replace(
        row, promised=promise.value, low=promise.low, high=promise.high, basis=promise.basis
    )


def _kv_tokens(model: ModelPlan, seen: Measured | None) -> Comparison:
    """As far from the promise as the estimate's errors allow."""
    memory = model.memory
    cache, error = memory.kv_cache_bytes, memory.error_bytes
    row = Comparison(
        model=model.name,
        quantity="KV tokens of a replica",
        unit="tokens",
        promised=memory.kv_tokens,
        measured=None if seen is None else seen.kv_tokens,
        basis=_kv_basis(model),
    )
    if not error or cache <= 0:
        return row
    low, high = (memory.kv_tokens * max(0, cache + by) / cache for by in (-error, error))
    return dataclasses.replace(row, low=low, high=high)


def _kv_basis(model: ModelPlan) -> Basis:
    """On processors the size of the cache is stated."""
    if model.memory.kv_source:
        return "measured"
    return "estimate" if model.accelerator else "exact"


def _device_memory(model: ModelPlan, seen: Measured | None) -> Comparison:
    """The engine may use so much, and fills it with its KV cache. The driver also counts its own
    context and what other programs have."""
    devices = None if seen is None else seen.devices
    used = None if devices is None else devices.used_bytes
    return Comparison(
        model=model.name,
        quantity="memory in use on a device",
        unit="GiB",
        promised=model.memory.usable_bytes / GIB,
        measured=None if used is None else used / GIB,
        basis="declared",
    )


def _planned_kv_percent(model: ModelPlan) -> float | None:
    """KV cache use at the planned concurrency, with requests of mean length."""
    if model.serving is None or not model.sequences_at_mean_length:
        return None
    return min(100.0, 100 * model.serving.concurrency / model.sequences_at_mean_length)


def _cost_now(model: ModelPlan, seen: Measured | None) -> float | None:
    """The planned price of one replica times the running replicas."""
    if seen is None or not model.stable.scaling.min_replicas:
        return None
    return model.cost.usd_per_hour.value / model.stable.scaling.min_replicas * seen.replicas
