"""The plan of a whole environment: configuration in, PlatformDraft out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slipway.config.aws import AwsSettings
from slipway.config.errors import raise_if_any
from slipway.config.fleet import FleetSettings
from slipway.config.settings import EnvironmentSettings
from slipway.inputs import PlanInputs
from slipway.plan.certificate_names import control_plane, peer_names
from slipway.plan.draft import PlatformDraft
from slipway.plan.endpoint import PLATFORM, Endpoint
from slipway.plan.figures import Cost
from slipway.plan.platform import (
    AutoscalingPlan,
    BudgetPlan,
    EnvoyPlan,
    GatewayPlan,
    MonitoringPlan,
    Node,
    NodeAgentPlan,
    Pool,
    SnapshotPlan,
)

from .aws import plan_aws
from .aws_prices import BesidePools, beside_pools, beside_warnings
from .fabric.refusals import closed_gateway, several_domains, unpublished_variables
from .fleet.cost import aged, make_cost, oldest, output_tokens_per_s
from .fleet.packing import hosts_of, needs, pool_placement
from .fleet.placed import Placed
from .fleet.plan import place_models
from .fleet.processors import misfits
from .fleet.stores import store_problems
from .fleet.warnings import paid_supplies, plan_warnings
from .load_balancer import plan_load_balancer
from .models import plan_model
from .operator import plan_operator
from .placement import Placement, room_for
from .pools import plan_pool, usd_per_hour_at_most
from .public_certificate import certificate_warnings, for_clients, plan_certificate
from .security import plan_security, security_warnings
from .supply.addresses import UNKNOWN_ADDRESS
from .supply.ssh import plan_ssh
from .supply.supplies import Hosts, plan_hosts
from .supply.supply import Supply

CONSUL_HTTPS_PORT = 8501
NOMAD_HTTPS_PORT = 4646
WORKLOAD_KEYS_PORT = 4645
LOOPBACK = "127.0.0.1"
ENVOY_METRICS_PORT = 9901
XDS_PORT = 18000
XDS_HTTP_PORT = 18001
PROMETHEUS_PORT = 9090
AUTOSCALER_PORT = 8081
SUPERVISOR_PORT = 9001

# A scrape may fail or be late on a busy machine; older values no longer describe the load.
SCRAPES_MISSED = 3
LEAST_SCRAPE_VALID_S = 15


def draft_plan(inputs: PlanInputs, *, today: datetime.date | None = None) -> PlatformDraft:
    """Plans an environment: places the models' demand on the pools' supply and derives the rest.

    Pure: the same inputs give the same plan. Measurements (inputs.calibration) override estimates.
    Prices have their age at `today`, with a warning beyond 90 days. Raises ConfigError with every
    problem.
    """
    settings, artifacts = inputs.environment.settings, inputs.artifacts
    hosts = plan_hosts(inputs)
    origin = inputs.environment.origin
    raise_if_any(
        [
            problem
            for name, supply in hosts.supplies.items()
            for problem in unpublished_variables(name, supply.fabric, inputs.catalog, origin)
        ]
    )
    first_server, supplies = hosts.servers[0], hosts.supplies
    gateway = _gateway(inputs, hosts)
    gateway_address = gateway.envoys[0].listener.host
    peers = peer_names(inputs.environment.name)
    consul = _https(first_server.address, CONSUL_HTTPS_PORT)
    nomad = _https(first_server.address, NOMAD_HTTPS_PORT)
    prometheus = _https(gateway_address, PROMETHEUS_PORT)
    placed = place_models(inputs, supplies)
    raise_if_any(
        [
            problem
            for supply in supplies.values()
            for problem in store_problems(supply, placed, inputs.models, origin)
        ]
    )
    placements = _placements(inputs, supplies, placed)
    pools = tuple(
        plan_pool(supply, placed, inputs.catalog, artifacts) for supply in supplies.values()
    )
    models = tuple(
        plan_model(inputs, each, surge_replicas=_surge(each, placements), today=today)
        for each in placed
    )
    zones = settings.aws.zones if isinstance(settings, AwsSettings) and settings.aws else ()
    raise_if_any(
        [
            *several_domains(settings.pools, models, zones, origin),
            *closed_gateway(settings.gateway, settings.pools, models, origin),
        ]
    )
    aws = plan_aws(inputs, hosts, plan_load_balancer(inputs, gateway, models))
    beside = beside_pools(inputs, aws)
    cost = aged(_cost(pools, beside, placed, paid_supplies(supplies, pools)), today)
    warnings = plan_warnings(supplies, pools, placed, cost, settings.budget, today=today)
    return PlatformDraft(
        environment=inputs.environment.name,
        target=settings.target,
        datacenter=inputs.environment.name,
        cidr=settings.network.cidr,
        servers=hosts.servers,
        consul=consul,
        nomad=nomad,
        workload_keys=_https(_keys_address(hosts), WORKLOAD_KEYS_PORT),
        peers=peers,
        security=plan_security(inputs),
        pools=pools,
        models=models,
        gateway=gateway,
        monitoring=MonitoringPlan(
            pool=settings.gateway.pool,
            prometheus=prometheus,
            scrape_interval_s=settings.monitoring.scrape_interval_s,
        ),
        autoscaling=AutoscalingPlan(
            pool=settings.gateway.pool,
            autoscaler=_https(gateway_address, AUTOSCALER_PORT),
            evaluation_interval_s=settings.autoscaling.evaluation_interval_s,
            envoys=len(gateway.envoys),
            scrape_valid_s=_scrape_valid_s(settings.monitoring.scrape_interval_s),
        ),
        snapshots=_snapshots(settings, gateway.envoys[0]),
        node_agent=NodeAgentPlan(
            bundle=artifacts.bundles["host"],
            environment=artifacts.environments["node"],
            supervisor=_http(first_server.address, SUPERVISOR_PORT),
        ),
        ssh=plan_ssh(inputs, hosts.listed),
        aws=aws,
        operator=plan_operator(
            inputs, peers, consul=consul, nomad=nomad, prometheus=prometheus, gateway=gateway
        ),
        tools=dict(artifacts.tools),
        cost=cost,
        usd_per_hour_at_most=sum(
            usd_per_hour_at_most(supply, placed) for supply in supplies.values()
        )
        + sum(each.usd_per_hour.value for each in beside),
        budget=BudgetPlan(**settings.budget.model_dump()),
        warnings=(
            # Servers may be of the same instance as a pool.
            *dict.fromkeys([*warnings, *beside_warnings(beside, today)]),
            *hosts.warnings,
            *security_warnings(inputs),
            *certificate_warnings(inputs),
        ),
    )


def _placements(
    inputs: PlanInputs, supplies: Mapping[str, Supply], placed: Sequence[Placed]
) -> dict[str, Placement]:
    """The placement of every pool of processors, all models at their maximum. Raises ConfigError
    with the models that do not fit."""
    origin = inputs.environment.origin
    placements = {
        name: pool_placement(supply, placed)
        for name, supply in supplies.items()
        if supply.accelerator is None
    }
    raise_if_any(
        [
            problem
            for name, placement in placements.items()
            for problem in misfits(supplies[name], placement, placed, origin)
        ]
    )
    return placements


def _surge(placed: Placed, placements: Mapping[str, Placement]) -> int:
    """Replicas of a changed spec that fit; accelerators are not counted one by one."""
    placement = placements.get(placed.option.supply.pool)
    if placement is None:
        return 0
    free = placement.free.values()
    most = placed.demand.max_replicas
    return room_for(free, needs(placed), at_most=most, members=hosts_of(placed))


def _cost(
    pools: Sequence[Pool],
    beside: Sequence[BesidePools],
    placed: Sequence[Placed],
    paid: Sequence[Supply],
) -> Cost:
    """What all nodes cost, unused capacity included, and what is paid for beside them."""
    hourly = sum(pool.usd_per_hour.value for pool in pools)
    hourly += sum(each.usd_per_hour.value for each in beside)
    tokens = sum(output_tokens_per_s(each.demand.load) for each in placed if each.demand.load)
    return make_cost(
        hourly,
        " + ".join(
            [
                *(pool.name for pool in pools),
                *(f"{each.name} ({each.usd_per_hour.source})" for each in beside),
            ]
        ),
        tokens_per_s=tokens if hourly else 0.0,  # tokens that cost nothing have no price
        price_date=oldest(
            [*(supply.price_date for supply in paid), *(each.price_date for each in beside)]
        ),
    )


def _snapshots(settings: EnvironmentSettings, envoy: EnvoyPlan) -> SnapshotPlan | None:
    if not isinstance(settings, FleetSettings):
        return None
    return SnapshotPlan(
        pool=envoy.pool,
        node=envoy.node,
        address=envoy.listener.host,
        every_h=settings.snapshots.every_h,
        keep=settings.snapshots.keep,
    )


def _keys_address(hosts: Hosts) -> str:
    """Consul's servers ask for the keys beside them, so that each can do without the others."""
    return hosts.servers[0].address if hosts.on_one_machine else LOOPBACK


def _gateway(inputs: PlanInputs, hosts: Hosts) -> GatewayPlan:
    """An Envoy on every host of the pool; on one machine, and where hosts are not known, one."""
    settings, artifacts = inputs.environment.settings, inputs.artifacts
    supply = hosts.supplies[settings.gateway.pool]
    nodes = supply.gateway_hosts or (None,)
    envoys = tuple(
        _envoy(inputs, node, suffix=f"-{node.name}" if node and not supply.on_loopback else "")
        for node in nodes
    )
    return GatewayPlan(
        envoys=envoys,
        clients=envoys[0].listener.at(settings.gateway.address or envoys[0].listener.host),
        certificate=plan_certificate(inputs),
        shared_address=settings.gateway.address or "",
        xds_bundle=artifacts.bundles["xds"],
        xds_environment=artifacts.environments["xds"],
        weights=settings.gateway.weights,
    )


def _envoy(inputs: PlanInputs, node: Node | None, *, suffix: str) -> EnvoyPlan:
    environment = inputs.environment
    address = node.address if node else UNKNOWN_ADDRESS
    return EnvoyPlan(
        name=f"envoy{suffix}",
        xds_name=f"xds{suffix}",
        pool=environment.settings.gateway.pool,
        node=node.name if node else "",
        listener=for_clients(inputs, address),
        metrics=_https(address, ENVOY_METRICS_PORT),
        xds=replace(_https(address, XDS_PORT), server_name=control_plane(environment.name)),
        xds_http=_https(address, XDS_HTTP_PORT),
    )


def _http(host: str, port: int) -> Endpoint:
    return Endpoint(scheme="http", host=host, port=port)


def _https(host: str, port: int) -> Endpoint:
    """Clients verify the platform's own certificates, and show theirs."""
    return Endpoint(scheme="https", host=host, port=port, ca=PLATFORM)


def _scrape_valid_s(scrape_interval_s: int) -> int:
    return max(LEAST_SCRAPE_VALID_S, SCRAPES_MISSED * scrape_interval_s)
