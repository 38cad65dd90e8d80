"""Whom a certificate identifies: the names by which each part of the platform verifies another.

Consul and Nomad accept as a server only a certificate with the name of their servers, so a node's
certificate cannot serve as one. Clients connect to addresses, which the certificates also contain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipway.plan.certificate_names import (
    CLIENT,
    LOCALHOST,
    SERVER,
    consul_agents,
    nomad_agents,
)
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import EnvoyPlan, Node, PlatformPlan, Server

LOOPBACK = "127.0.0.1"  # for health checks of an agent and for programs beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The subject of a certificate. `name` is unique in the environment and comes from its
    configuration, as every name of a resource; peers see `common_name`. Every certificate may be
    used by a client, but by a server only if it `serves`."""

    name: str
    common_name: str
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    serves: bool = False


def authority(generation: int) -> Identity:
    name = "authority" if generation == 1 else f"authority-{generation}"
    return Identity(name=name, common_name=name)


def server(plan: PlatformPlan, host: Server) -> Identity:
    return _host(plan, host.name, host.address, role=SERVER)


def node(plan: PlatformPlan, host: Node) -> Identity:
    """A node also speaks for the replicas that run on it."""
    host_of_agents = _host(plan, host.name, host.address, role=CLIENT)
    return replace(host_of_agents, dns_names=(*host_of_agents.dns_names, plan.peers.replica))


def pool(plan: PlatformPlan, name: str) -> Identity:
    """Of every node of a range, none of whose addresses is known: it has the names of a node."""
    of_agents = _host(plan, name, "", role=CLIENT)
    names = (*of_agents.dns_names, plan.peers.replica)
    return replace(of_agents, name=f"pool-{name}", common_name=f"pool-{name}", dns_names=names)


def introducer(plan: PlatformPlan, job_id: str, addresses: tuple[str, ...]) -> Identity:
    """A platform job on each of these hosts. New nodes verify its name; Consul's check verifies the
    address."""
    names = (plan.peers.introducer,)
    return replace(job(job_id), dns_names=names, addresses=addresses, serves=True)


def operator(plan: PlatformPlan) -> Identity:
    """The person who runs `up`, and the gates on that machine: a client only."""
    return Identity(name="operator", common_name="operator", dns_names=(plan.peers.operator,))


def job(job_id: str) -> Identity:
    """A platform job that calls the agents: a client only."""
    return Identity(name=f"job-{job_id}", common_name=f"job-{job_id}")


def gateway(plan: PlatformPlan, envoy: EnvoyPlan) -> Identity:
    """Envoy's client certificate, for its control plane and for replicas; xDS accepts only its
    common name as node id. Readers of Envoy's statistics verify the address."""
    return Identity(
        name=f"job-{envoy.name}",
        common_name=node_id(envoy.listener),
        dns_names=(plan.peers.gateway,),
        addresses=_known(envoy.metrics),
        serves=True,
    )


def prometheus(plan: PlatformPlan, job_id: str) -> Identity:
    """A client of everything that has metrics. Clients of Prometheus verify its address; the
    autoscaler's proxy verifies its name."""
    return _serving(job_id, plan.peers.prometheus, plan.monitoring.prometheus)


def fabric_admission(plan: PlatformPlan, job_id: str) -> Identity:
    """A client of Nomad. Readers of its metrics verify the address, which is the autoscaler's."""
    addresses = _known(plan.autoscaling.autoscaler)
    return replace(job(job_id), addresses=addresses, serves=True)


def autoscaler(plan: PlatformPlan, job_id: str) -> Identity:
    """A client of Nomad and of Prometheus. Readers of its metrics verify the address."""
    return _serving(job_id, plan.peers.autoscaler, plan.autoscaling.autoscaler)


def node_id(listener: Endpoint) -> str:
    """Envoy's id towards its control plane: where it listens for clients."""
    return f"gateway-{listener.host}"


def control_plane(envoy: EnvoyPlan) -> Identity:
    """Envoy verifies the name; clients that ask for the status verify the address."""
    return _serving(envoy.xds_name, envoy.xds.server_name, envoy.xds)


def _serving(job_id: str, dns_name: str, listener: Endpoint) -> Identity:
    """A platform job that serves at its node's address."""
    return replace(job(job_id), dns_names=(dns_name,), addresses=_known(listener), serves=True)


def _host(plan: PlatformPlan, name: str, address: str, *, role: str) -> Identity:
    return Identity(
        name=f"host-{name}",
        common_name=name,
        dns_names=(consul_agents(role, plan.datacenter), nomad_agents(role), LOCALHOST),
        addresses=tuple(known for known in (address, LOOPBACK) if known),
        serves=True,
    )


def _known(listener: Endpoint) -> tuple[str, ...]:
    """The address as a list; empty where it is not known before the host exists."""
    return (listener.host,) if listener.host else ()
