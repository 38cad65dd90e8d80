"""What a pool's fabric is refused for when its models and the catalog are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slipway.config.catalog import Catalog, VariableList
from slipway.config.document import Origin
from slipway.config.errors import Problem, suggestion
from slipway.config.fabric import domain_problems
from slipway.config.metal import MetalPool
from slipway.config.settings import PoolSettings
from slipway.plan.fabric import FabricSpec
from slipway.plan.platform import ModelWithoutJobs


def unpublished_variables(
    pool: str, fabric: FabricSpec, catalog: Catalog, origin: Origin
) -> Iterator[Problem]:
    """Overrides of variables that no library lists: most are misspelt."""
    names = published(catalog.fabric_variables)
    for name, value in fabric.environment.items():
        if name not in names:
            yield origin.problem(
                ("pools", pool, "fabric", "environment", name),
                "is in no list of catalog/fabric_variables.yaml",
                value=value,
                fix=suggestion(name, names),
            )


def published(lists: Mapping[str, VariableList]) -> frozenset[str]:
    return frozenset(name for each in lists.values() for name in each.names)


def several_domains(
    pools: Mapping[str, PoolSettings], models: Iterable[ModelWithoutJobs], origin: Origin
) -> Iterator[Problem]:
    """Pools that are not one placement domain though a model takes groups of their hosts. On AWS
    a pool with a fabric is one cluster placement group."""
    groups = {model.pool: model.name for model in models if model.replica.nodes > 1}
    for name, model in sorted(groups.items()):
        pool = pools[name]
        if isinstance(pool, MetalPool):
            yield from domain_problems(name, pool.hosts, model, origin)
