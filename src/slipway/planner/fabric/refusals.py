"""What a pool's fabric is refused for when its models and the catalog are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from slipway.config.aws import AwsPool
from slipway.config.catalog import Catalog, VariableList
from slipway.config.document import Origin
from slipway.config.errors import Problem, suggestion
from slipway.config.fabric import domain_problems
from slipway.config.gateway import GatewaySettings
from slipway.config.metal import MetalPool
from slipway.config.settings import PoolSettings
from slipway.plan.fabric import FabricSpec
from slipway.plan.platform import ModelWithoutJobs
from slipway.planner.supply.addresses import FIRST_PORT, LAST_PORT

# Of net.ipv4.ip_local_port_range, by default (Linux, networking/ip-sysctl). A host may have another
# range, which ends higher.
FIRST_EPHEMERAL_PORT = 32768


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
    pools: Mapping[str, PoolSettings],
    models: Iterable[ModelWithoutJobs],
    zones: Sequence[str],
    origin: Origin,
) -> Iterator[Problem]:
    """Pools that are not one placement domain though a model takes groups of their hosts. On AWS
    such a pool is one cluster placement group: elastic, and in one of the network's `zones`."""
    for name, model in sorted(_with_groups(models).items()):
        pool = pools[name]
        if isinstance(pool, MetalPool):
            yield from domain_problems(name, pool.hosts, model, origin)
        elif isinstance(pool, AwsPool):
            yield from _not_one_placement_group(name, pool, model, zones, origin)


def closed_gateway(
    gateway: GatewaySettings,
    pools: Mapping[str, PoolSettings],
    models: Iterable[ModelWithoutJobs],
    origin: Origin,
) -> Iterator[Problem]:
    """A gateway on hosts whose firewall closes its port to clients (docs/adr/0030)."""
    model = _with_groups(models).get(gateway.pool)
    if model is None or not isinstance(pools[gateway.pool], MetalPool):
        return
    if FIRST_PORT <= gateway.port <= LAST_PORT or gateway.port >= FIRST_EPHEMERAL_PORT:
        yield origin.problem(
            ("gateway", "port"),
            f"is one that the firewall of pool {gateway.pool}'s hosts closes to clients: {model}"
            " takes several of them",
            value=gateway.port,
            fix=f"use a port below {FIRST_PORT}, e.g. 8080, or give the gateway another pool",
        )


def _with_groups(models: Iterable[ModelWithoutJobs]) -> dict[str, str]:
    """Pool -> a model that takes several hosts of it."""
    return {model.pool: model.name for model in models if model.replica.nodes > 1}


def _not_one_placement_group(
    name: str, pool: AwsPool, model: str, zones: Sequence[str], origin: Origin
) -> Iterator[Problem]:
    if pool.fixed and zones:
        yield origin.problem(
            ("pools", name, "nodes"),
            f"are fixed hosts, which AWS does not place together: {model} takes several hosts",
            value=pool.fixed,
            fix=f"write `nodes: {{min: {pool.fixed}, max: {pool.fixed}}}`",
        )
    if pool.zone is None and len(zones) > 1:
        yield origin.problem(
            ("pools", name, "zone"),
            f"is missing: {model} takes several hosts, which must be in one zone",
            fix=f"add `zone: {zones[0]}`, or another of slipway:aws.zones",
        )
