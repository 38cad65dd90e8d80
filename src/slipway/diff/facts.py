"""The plan's facts, read from the components' properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COMPONENT = "slipway:index:"
PLATFORM = "slipway:index:Platform"
MODEL_SERVICE = "slipway:index:ModelService"
NODE_POOL = "slipway:index:NodePool"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    kind: str = ""  # "local", "aws", ...
    nodes: int = 0
    nodes_at_most: int = 0
    accelerator: str = ""
    accelerators_per_node: int = 0
    market: str = ""  # "on_demand", "spot", ...
    usd_per_hour: float | None = None

    @property
    def accelerators(self) -> int:
        return self.nodes * self.accelerators_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Times are p95 goals and the planner's estimates for them, in milliseconds."""

    pool: str = ""
    names: tuple[str, ...] = ()  # its name and aliases, which clients use
    min_replicas: int = 0
    max_replicas: int = 0
    max_model_len: int = 0  # tokens
    max_num_seqs: int = 0
    ttft_goal_ms: float | None = None
    tpot_goal_ms: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    meets_goal: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`usd_per_hour` is the environment at its minimum, `usd_per_hour_at_most` at its maximum."""

    pools: Mapping[str, PoolFacts] = field(default_factory=dict)
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    usd_per_hour: float | None = None
    usd_per_hour_at_most: float | None = None
    price_date: str = ""


def of_resource(type_: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A component's facts, which are one property; for any other resource, all properties.

    In the state of an older checkout a component's properties are its facts.
    """
    found = inputs.get("facts", inputs) if type_.startswith(COMPONENT) else inputs
    return dict(found) if isinstance(found, Mapping) else {}


def collect(components: Mapping[tuple[str, str], Mapping[str, Any]]) -> Facts:
    """Facts from the components' properties, keyed by (type, logical name)."""
    pools, models, platform = {}, {}, dict[str, Any]()
    for (type_, name), properties in components.items():
        if type_ == NODE_POOL:
            pools[_text(properties, "pool") or name] = _pool(properties)
        elif type_ == MODEL_SERVICE:
            models[_text(properties, "model") or name] = _model(properties)
        elif type_ == PLATFORM:
            platform = dict(properties)
    return Facts(
        pools=dict(sorted(pools.items())),
        models=dict(sorted(models.items())),
        usd_per_hour=_number(platform, "cost", "usd_per_hour"),
        usd_per_hour_at_most=_number(platform, "cost", "usd_per_hour_at_most"),
        price_date=_text(platform, "cost", "price_date"),
    )


def _pool(properties: Mapping[str, Any]) -> PoolFacts:
    nodes = int(_number(properties, "nodes") or 0)
    return PoolFacts(
        kind=_text(properties, "kind"),
        nodes=nodes,
        nodes_at_most=int(_number(properties, "capacity", "nodes_max") or nodes),
        accelerator=_text(properties, "accelerator"),
        accelerators_per_node=int(_number(properties, "accelerators_per_node") or 0),
        market=_text(properties, "capacity", "market"),
        usd_per_hour=_number(properties, "capacity", "usd_per_hour"),
    )


def _model(properties: Mapping[str, Any]) -> ModelFacts:
    aliases = properties.get("aliases")
    met = _at(properties, "capacity", "meets_goal")
    return ModelFacts(
        pool=_text(properties, "pool"),
        names=(
            _text(properties, "model"),
            *(str(alias) for alias in (aliases if isinstance(aliases, list) else [])),
        ),
        min_replicas=int(_number(properties, "scaling", "min_replicas") or 0),
        max_replicas=int(_number(properties, "scaling", "max_replicas") or 0),
        max_model_len=int(_number(properties, "engine", "max_model_len") or 0),
        max_num_seqs=int(_number(properties, "engine", "max_num_seqs") or 0),
        ttft_goal_ms=_number(properties, "goal", "ttft_p95_ms"),
        tpot_goal_ms=_number(properties, "goal", "tpot_p95_ms"),
        ttft_ms=_number(properties, "capacity", "ttft_ms"),
        tpot_ms=_number(properties, "capacity", "tpot_ms"),
        meets_goal=met if isinstance(met, bool) else None,
    )


def _at(properties: Mapping[str, Any], *keys: str) -> Any:
    """The value at a path; None if a part of the path is missing."""
    value: Any = properties
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(properties: Mapping[str, Any], *keys: str) -> float | None:
    """The number at a path; None if unknown or missing."""
    value = _at(properties, *keys)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _text(properties: Mapping[str, Any], *keys: str) -> str:
    value = _at(properties, *keys)
    return value if isinstance(value, str) else ""
