"""Models and where they run, and how many replicas count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slipway.plan.figures import Refusal
from slipway.planner.supply.supply import Supply

from .demand import Demand
from .option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A model and where it runs. `without_room` are better layouts, which its pool cannot hold
    beside the other models."""

    option: Option
    refused: tuple[Refusal, ...]
    without_room: tuple[str, ...] = ()

    @property
    def demand(self) -> Demand:
        return self.option.demand


Count = Callable[[Placed], int]


def at_minimum(placed: Placed) -> int:
    return placed.demand.min_replicas


def at_maximum(placed: Placed) -> int:
    return placed.demand.max_replicas


def at_load(placed: Placed) -> int:
    """Replicas that the declared load needs, within the minimum and the maximum."""
    return placed.option.replicas


def in_use(supply: Supply, placed: Iterable[Placed]) -> list[Placed]:
    return [each for each in placed if each.option.supply is supply]
