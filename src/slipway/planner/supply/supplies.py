"""The hosts of an environment: its servers, and what each pool offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipway.config.environment import DevSettings, FleetSettings
from slipway.config.errors import Problem, raise_if_any
from slipway.config.pools import AwsPool, MetalPool, PoolSettings
from slipway.inputs import PlanInputs
from slipway.plan.platform import Server

from .addresses import fleet_servers, lay_out, slot_hint
from .aws import aws_supply
from .local import local_supplies
from .metal import metal_supply
from .supply import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    servers: tuple[Server, ...]
    supplies: Mapping[str, Supply]  # by pool
    on_one_machine: bool  # each with an address of its loopback network
    warnings: tuple[str, ...] = ()


def plan_hosts(inputs: PlanInputs) -> Hosts:
    """Raises ConfigError with the problems of every pool."""
    settings, origin = inputs.environment.settings, inputs.environment.origin
    if isinstance(settings, FleetSettings):
        return Hosts(
            servers=fleet_servers(settings),
            supplies=_supplies(inputs, settings.pools),
            on_one_machine=False,
        )
    assert isinstance(settings, DevSettings)  # noqa: S101  (there is no third kind)
    layout = lay_out(settings, origin)
    raise_if_any(layout.problems)
    supplies, problems = local_supplies(settings, layout.nodes, inputs.machine, origin)
    raise_if_any(problems)
    return Hosts(
        servers=layout.servers,
        supplies=supplies,
        on_one_machine=True,
        warnings=tuple(slot_hint(settings, origin)),
    )


def _supplies(inputs: PlanInputs, pools: Mapping[str, PoolSettings]) -> dict[str, Supply]:
    """What pools on other machines offer."""
    catalog, origin = inputs.catalog, inputs.environment.origin
    gateway = inputs.environment.settings.gateway.pool
    supplies: dict[str, Supply] = {}
    problems: list[Problem] = []
    for name, pool in sorted(pools.items()):
        if isinstance(pool, AwsPool):
            made = aws_supply(name, pool, catalog, origin)
        else:
            assert isinstance(pool, MetalPool)  # noqa: S101  (local pools are those of dev)
            made = metal_supply(name, pool, catalog, origin)
        if isinstance(made, Problem):
            problems.append(made)
        else:
            supplies[name] = _with_a_node_for_the_gateway(made) if name == gateway else made
    raise_if_any(problems)
    return supplies


def _with_a_node_for_the_gateway(supply: Supply) -> Supply:
    """The gateway always runs, so its pool never shrinks to nothing."""
    return replace(supply, nodes_min=max(1, supply.nodes_min))
