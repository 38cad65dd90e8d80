"""Programs of the operator's machine, and the addresses at which they reach the platform."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from ipaddress import IPv4Address

from slipway.config.fleet import FleetSettings
from slipway.inputs import PlanInputs
from slipway.plan.certificate_names import SERVER, consul_agents, nomad_agents
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import GatewayPlan, OperatorEnvoy, OperatorPlan, PeerNames


def plan_operator(
    inputs: PlanInputs,
    peers: PeerNames,
    *,
    consul: Endpoint,
    nomad: Endpoint,
    prometheus: Endpoint,
    gateway: GatewayPlan,
) -> OperatorPlan:
    """The platform's own endpoints or, where hosts are reached over SSH, loopback addresses that
    are forwarded to them (cli.reach.forwards): the first one for the clusters, Prometheus and the
    first Envoy, the following ones for the other Envoys. Clients use the first Envoy's listener for
    all Envoys. Certificates do not contain these addresses, so clients verify names.
    """
    first, bundle = _first_address(inputs), inputs.artifacts.bundles["operator"]
    if first is None:
        return OperatorPlan(
            bundle=bundle,
            consul=consul,
            nomad=nomad,
            prometheus=prometheus,
            envoys=tuple(
                OperatorEnvoy(listener=each.listener, metrics=each.metrics, xds_http=each.xds_http)
                for each in gateway.envoys
            ),
            forwarded=False,
        )
    environment = inputs.environment.name
    addresses = [str(first + number) for number in range(len(gateway.envoys))]
    return OperatorPlan(
        bundle=bundle,
        consul=replace(consul, host=str(first), server_name=consul_agents(SERVER, environment)),
        nomad=replace(nomad, host=str(first), server_name=nomad_agents(SERVER)),
        prometheus=replace(prometheus, host=str(first), server_name=peers.prometheus),
        envoys=tuple(
            OperatorEnvoy(
                listener=each.listener.at(address),
                metrics=replace(each.metrics, host=address, server_name=peers.gateway),
                xds_http=replace(each.xds_http, host=address, server_name=each.xds.server_name),
            )
            for each, address in zip(gateway.envoys, addresses, strict=True)
        ),
        forwarded=True,
    )


def _first_address(inputs: PlanInputs) -> IPv4Address | None:
    """None where nothing is forwarded."""
    settings = inputs.environment.settings
    if not isinstance(settings, FleetSettings) or settings.ssh is None:
        return None
    return IPv4Address(settings.ssh.local_address or derived_address(inputs.environment.name))


def derived_address(environment: str) -> str:
    """The same for every operator, so that a preview is the same everywhere. Out of the upper half
    of 127.0.0.0/8: programs and environments of this machine are in the lower one."""
    upper, lower, *_ = hashlib.sha256(environment.encode()).digest()
    return f"127.{128 + upper % 127}.{lower}.1"
