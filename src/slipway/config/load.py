"""The load a model is planned for, declared in its file or read from a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from .base import MOST_TOKENS, PositiveFloat, RequestsPerS, Settings, Tagged, Tokens, invalid

STANDARD_DEVIATIONS_AT_P95 = 1.6449  # of the normal distribution


class Lengths(Settings):
    """Tokens of a request: median and 95th percentile, equal when all requests have one length."""

    p50: Tokens
    p95: Tokens

    @property
    def mean(self) -> float:
        """Mean of the lognormal distribution with this median and 95th percentile: exp(mu + s^2 /
        2)."""
        spread = math.log(self.p95 / self.p50) / STANDARD_DEVIATIONS_AT_P95
        return self.p50 * math.exp(spread**2 / 2)


def _lengths(value: Any) -> Any:
    """A plain number of tokens means that all requests have this length."""
    if type(value) is int and 1 <= value <= MOST_TOKENS:
        return {"p50": value, "p95": value}
    if isinstance(value, Mapping | Lengths):
        return value
    raise invalid(
        f"must be a number of tokens from 1 to {MOST_TOKENS}, or {{p50, p95}}", fix="write e.g. 500"
    )


def _ordered(lengths: Lengths) -> Lengths:
    if lengths.p50 > lengths.p95:
        raise invalid("p50 is greater than p95", fix="swap the two")
    if lengths.mean > MOST_TOKENS:
        raise invalid(
            f"p95 is so far from p50 that the mean is more than {MOST_TOKENS} tokens",
            fix="move p50 and p95 closer together",
        )
    return lengths


TokenLengths = Annotated[Lengths, BeforeValidator(_lengths), AfterValidator(_ordered)]


class RampSettings(Settings):
    """The steepest growth to plan for: from the declared rate to this one within `minutes`."""

    EXAMPLE = "{to_requests_per_s: 8, minutes: 3}"
    to_requests_per_s: RequestsPerS
    minutes: PositiveFloat


class DeclaredLoad(Tagged):
    TAG = "declared"
    EXAMPLE = "{requests_per_s: 2, input_tokens: 200, output_tokens: 100}"
    requests_per_s: RequestsPerS
    input_tokens: TokenLengths
    output_tokens: TokenLengths
    ramp: RampSettings | None = None

    @model_validator(mode="after")
    def _ramp_goes_up(self) -> Self:
        if self.ramp is not None and self.ramp.to_requests_per_s <= self.requests_per_s:
            raise invalid(
                f"ramps down: ramp.to_requests_per_s, {self.ramp.to_requests_per_s:g}, is not more"
                f" than requests_per_s, {self.requests_per_s:g}",
                fix=f"use more than {self.requests_per_s:g}, or leave `ramp` out",
            )
        return self


class TracedLoad(Tagged):
    """A trace file, relative to the project: one line with a JSON object per request.

    `unit` is that of its timestamps: milliseconds in Mooncake's traces, seconds in BurstGPT's.
    """

    TAG = "traced"
    trace: Annotated[str, Field(min_length=1)]
    unit: Literal["ms", "s"] = "ms"


_NUMBERS = DeclaredLoad.model_fields.keys()


def _one_kind(value: Any) -> Any:
    if isinstance(value, Mapping) and "trace" in value and value.keys() & _NUMBERS:
        raise invalid(
            "has both a `trace` and numbers, which may contradict it",
            fix="keep `trace`, or the numbers",
        )
    return value


def _kind(value: Any) -> str:
    traced = isinstance(value, TracedLoad) or (isinstance(value, Mapping) and "trace" in value)
    return (TracedLoad if traced else DeclaredLoad).TAG


LoadSettings = Annotated[
    Annotated[DeclaredLoad, Tag("declared")] | Annotated[TracedLoad, Tag("traced")],
    Discriminator(_kind),
    BeforeValidator(_one_kind),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    to_requests_per_s: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests that arrive. `source` says where the figures come from."""

    requests_per_s: float
    input_tokens: Lengths
    output_tokens: Lengths
    ramp: Ramp | None
    source: str


def declared_load(settings: DeclaredLoad, source: str) -> Load:
    ramp = settings.ramp
    return Load(
        requests_per_s=settings.requests_per_s,
        input_tokens=settings.input_tokens,
        output_tokens=settings.output_tokens,
        ramp=None
        if ramp is None
        else Ramp(to_requests_per_s=ramp.to_requests_per_s, seconds=60 * ramp.minutes),
        source=source,
    )
