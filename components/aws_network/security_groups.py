"""Which hosts may open connections to which, as the rules of security groups. Pure.

Every host is in one group by its role. A connection is two rules, one at each end: the groups
allow nothing else, in either direction. Ports come from the plan and from the agents' documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from components.hosts.firewall import has_members
from components.nomad.agent_config import RPC_PORT as NOMAD_RPC
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan

SERVERS, GATEWAY, NODES = "servers", "gateway", "nodes"
HOSTS = (SERVERS, GATEWAY, NODES)
ENDPOINTS = "endpoints"  # the interface endpoints of AWS's services
WAY_IN = "way-in"  # the endpoint through which the operator's machine reaches SSH

LOAD_BALANCER = "load-balancer"  # in front of the gateway

# Consul's and Nomad's own ports, which nothing of ours changes (components/consul/agent_config.py).
CONSUL_RPC, CONSUL_GOSSIP, NOMAD_GOSSIP = 8300, 8301, 4648
SSH, HTTPS = 22, 443
ALL = "-1"  # every protocol and port


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Hosts of the group `source` connect to those of `target`. Ports are 0 for ALL."""

    source: str
    target: str
    protocol: str  # "tcp", "udp" or ALL
    first_port: int
    last_port: int
    reason: str  # the description of its rules: 255 characters, no apostrophe


def fabric_group(pool: str) -> str:
    """The group of a pool's interfaces with EFA, and of all where its nodes have members."""
    return f"fabric-{pool}"


def connections(plan: PlatformPlan, aws: AwsPlan) -> tuple[Connection, ...]:
    """All of an environment's. Each is there once, with all its reasons: AWS refuses a second rule
    for the same groups and ports."""
    found = [
        *_of_clusters(plan),
        *_of_requests(plan),
        *_of_observation(plan),
        *_of_the_operator(plan),
        *_of_clients(aws),
        *_of_introductions(aws),
        *_of_aws(aws),
        *_of_pools(plan, aws),
    ]
    reasons: dict[Connection, list[str]] = {}
    for each in found:
        reasons.setdefault(replace(each, reason=""), []).append(each.reason)
    return tuple(
        replace(each, reason="; ".join(dict.fromkeys(why))) for each, why in reasons.items()
    )


def _of_clusters(plan: PlatformPlan) -> Iterator[Connection]:
    for protocol in ("tcp", "udp"):
        yield from _each(HOSTS, HOSTS, CONSUL_GOSSIP, "gossip of Consul agents", protocol)
        yield from _each([SERVERS], [SERVERS], NOMAD_GOSSIP, "gossip of Nomad servers", protocol)
    yield from _each(HOSTS, [SERVERS], CONSUL_RPC, "Consul agents ask Consul servers")
    yield from _each(HOSTS, [SERVERS], NOMAD_RPC, "Nomad agents ask Nomad servers")
    for api, name in ((plan.consul, "Consul"), (plan.nomad, "Nomad")):
        yield from _each(
            HOSTS, [SERVERS], api.port, f"hosts join and leave through the {name} API of servers"
        )


def _of_requests(plan: PlatformPlan) -> Iterator[Connection]:
    """To replicas, through the proxy beside each, at ports that Nomad gives: of one range on all
    nodes (docs/adr/0005-all-nodes-share-a-port-range.md)."""
    pools, gateway = {model.pool for model in plan.models}, plan.monitoring.pool
    any_node = plan.pool(gateway).hosts[0]
    for target, used in ((NODES, pools - {gateway}), (GATEWAY, pools & {gateway})):
        if used:
            yield Connection(
                source=GATEWAY,
                target=target,
                protocol="tcp",
                first_port=any_node.min_dynamic_port,
                last_port=any_node.max_dynamic_port,
                reason="requests to replicas, their liveness and their figures",
            )


def _of_observation(plan: PlatformPlan) -> Iterator[Connection]:
    """Prometheus, the autoscaler and the control planes run in the gateway's pool, on any host."""
    for api, name in ((plan.consul, "Consul"), (plan.nomad, "Nomad")):
        yield from _each([GATEWAY], HOSTS, api.port, f"Prometheus reads {name} agents")
    plugins = [pool for pool in plan.pools if pool.device_plugin]
    targets = {GATEWAY if pool.name == plan.monitoring.pool else NODES for pool in plugins}
    for port in sorted({pool.device_plugin.figures_port for pool in plugins if pool.device_plugin}):
        yield from _each(
            [GATEWAY], sorted(targets), port, "Prometheus reads the figures of devices"
        )
    envoys = plan.gateway.envoys
    ports = {
        plan.monitoring.prometheus.port: "the autoscaler and control planes ask Prometheus",
        plan.autoscaling.autoscaler.port: "Prometheus reads the autoscaler",
        **{envoy.metrics.port: "Prometheus reads Envoy" for envoy in envoys},
        **{envoy.xds_http.port: "Prometheus reads the control planes" for envoy in envoys},
    }
    for port, reason in ports.items():
        yield from _each([GATEWAY], [GATEWAY], port, reason)


def _of_the_operator(plan: PlatformPlan) -> Iterator[Connection]:
    """Over SSH to any fixed host, which forwards to the platform (cli/reach/forwards.py)."""
    fixed = (SERVERS, GATEWAY, *([NODES] if _other_fixed_pools(plan) else []))
    yield from _each([WAY_IN], fixed, SSH, "the operator reaches fixed hosts by SSH")
    reason = "a fixed host forwards what the operator asks"
    envoys = plan.gateway.envoys
    doors = [plan.monitoring.prometheus.port]
    doors += [door.port for each in envoys for door in (each.listener, each.metrics, each.xds_http)]
    for port in dict.fromkeys(doors):
        yield from _each(fixed, [GATEWAY], port, reason)


def _of_clients(aws: AwsPlan) -> Iterator[Connection]:
    """Who reaches the load balancer is a matter of the component that owns it."""
    if aws.load_balancer:
        reason = "requests of clients, and the load balancer asks whether hosts are healthy"
        yield from _each([LOAD_BALANCER], [GATEWAY], aws.load_balancer.port, reason)


def _of_introductions(aws: AwsPlan) -> Iterator[Connection]:
    for port in sorted({each.port for each in aws.introducers}):
        yield from _each([NODES], [GATEWAY], port, "new nodes ask to be introduced")


def _of_aws(aws: AwsPlan) -> Iterator[Connection]:
    """Through a NAT gateway AWS is asked at addresses that no group has."""
    if aws.egress == "endpoints":
        yield from _each(HOSTS, [ENDPOINTS], HTTPS, "hosts ask AWS services")


def _of_pools(plan: PlatformPlan, aws: AwsPlan) -> Iterator[Connection]:
    """EFA needs all traffic between the interfaces of a group, in both directions. Engines of
    members listen at any port, and nobody but the pool's nodes reaches them."""
    for name, pool in aws.pools.items():
        efa = any(each.kind != "interface" for each in pool.interfaces)
        members = has_members(plan, plan.pool(name))
        reasons = ["EFA between nodes of the pool"] if efa else []
        reasons += ["members on nodes of the pool"] if members else []
        if reasons:
            group = fabric_group(name)
            yield Connection(
                source=group,
                target=group,
                protocol=ALL,
                first_port=0,
                last_port=0,
                reason=" and ".join(reasons),
            )


def _other_fixed_pools(plan: PlatformPlan) -> bool:
    return any(pool.hosts and pool.name != plan.monitoring.pool for pool in plan.pools)


def _each(
    sources: Sequence[str],
    targets: Sequence[str],
    port: int,
    reason: str,
    protocol: str = "tcp",
) -> Iterator[Connection]:
    for source in sources:
        for target in targets:
            yield Connection(
                source=source,
                target=target,
                protocol=protocol,
                first_port=port,
                last_port=port,
                reason=reason,
            )
