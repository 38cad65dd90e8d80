"""The hosts of an environment: its servers, and what each pool offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipway.config.aws import AwsSettings
from slipway.config.dev import DevSettings
from slipway.config.errors import Problem, raise_if_any
from slipway.config.hosts import HostSettings
from slipway.config.metal import MetalSettings
from slipway.inputs import PlanInputs
from slipway.plan.platform import Server

from .addresses import fleet_servers, lay_out, slot_hint
from .aws import aws_supply
from .aws_hosts import fixed_hosts
from .local import local_supplies
from .metal import metal_supply
from .supply import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    servers: tuple[Server, ...]
    supplies: Mapping[str, Supply]  # by pool
    on_one_machine: bool  # each with an address of its loopback network
    listed: tuple[HostSettings, ...] = ()  # machines elsewhere that have addresses, servers first
    zones: Mapping[str, str] = field(default_factory=dict)  # of a cloud, by host
    warnings: tuple[str, ...] = ()


def plan_hosts(inputs: PlanInputs) -> Hosts:
    """Raises ConfigError with the problems of every pool."""
    settings, origin = inputs.environment.settings, inputs.environment.origin
    if isinstance(settings, DevSettings):
        return _on_this_machine(inputs, settings)
    made: dict[str, Supply | Problem]
    zones: Mapping[str, str] = {}
    if isinstance(settings, MetalSettings):
        servers, listed = settings.server_hosts, settings.hosts
        made = {
            name: metal_supply(name, pool, inputs.catalog, origin)
            for name, pool in settings.owned.items()
        }
    else:
        assert isinstance(settings, AwsSettings)  # noqa: S101  (there is no fourth target)
        fixed = fixed_hosts(settings, origin)
        servers, listed, zones = fixed.servers, fixed.listed, fixed.zones
        made = {
            name: aws_supply(name, pool, fixed.nodes(name), inputs.catalog, origin)
            for name, pool in settings.bought.items()
        }
    return Hosts(
        servers=fleet_servers(settings.servers, servers),
        supplies=_with_gateway(_supplies(made), settings.gateway.pool),
        on_one_machine=False,
        listed=listed,
        zones=zones,
    )


def _on_this_machine(inputs: PlanInputs, settings: DevSettings) -> Hosts:
    origin = inputs.environment.origin
    layout = lay_out(settings, origin)
    raise_if_any(layout.problems)
    supplies, problems = local_supplies(settings, layout.nodes, inputs.machine, origin)
    raise_if_any(problems)
    return Hosts(
        servers=layout.servers,
        supplies=_with_gateway(supplies, settings.gateway.pool),
        on_one_machine=True,
        warnings=tuple(slot_hint(settings, origin)),
    )


def _supplies(made: Mapping[str, Supply | Problem]) -> dict[str, Supply]:
    """What the pools offer, by name. Raises ConfigError with the problems of all."""
    raise_if_any([each for each in made.values() if isinstance(each, Problem)])
    return {name: supply for name, supply in sorted(made.items()) if isinstance(supply, Supply)}


def _with_gateway(supplies: Mapping[str, Supply], pool: str) -> dict[str, Supply]:
    """The gateway always runs, so its pool never shrinks to nothing."""
    holder = supplies[pool]
    holder = replace(holder, holds_gateway=True, nodes_min=max(1, holder.nodes_min))
    return {**supplies, pool: holder}
