"""AwsLoadBalancer: the address that clients on AWS use, in front of the gateway's hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws_network.component import AwsNetwork
from components.aws_network.security_groups import LOAD_BALANCER
from components.base import SlipwayComponent
from slipway.plan import aws as plan

HEALTH_PATH = "/healthz"  # Envoy's listener answers it itself, 503 while it drains
HEALTH_EVERY_S, HEALTH_TIMEOUT_S, HEALTH_CHANGES = 5, 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsLoadBalancerArgs:
    environment: str
    planned: plan.AwsLoadBalancer
    zones: tuple[plan.AwsZone, ...]
    network: AwsNetwork


class AwsLoadBalancer(SlipwayComponent):
    """A network load balancer that passes connections through to the gateway's hosts, TLS included.

    Owns the balancer, its list of hosts, and the rules that let clients in. A host that is removed
    from the list gets no new connection and finishes its answers. Leaves alone which hosts are
    healthy.

    Attribute: `dns_name` (an output; clients connect to it, or to a name of yours that points to
    it).
    """

    def __init__(
        self, name: str, args: AwsLoadBalancerArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        planned = args.planned
        facts = {"public": planned.public, "clients": list(planned.clients), "port": planned.port}
        super().__init__("AwsLoadBalancer", name, facts, opts)
        self._args, self._planned, self._name = args, planned, name
        self._let_clients_in()
        balancer = self._balancer()
        aws.lb.Listener(
            f"{name}-listener",
            load_balancer_arn=balancer.arn,
            port=planned.port,
            protocol="TCP",
            tcp_idle_timeout_seconds=planned.idle_s,
            default_actions=[
                aws.lb.ListenerDefaultActionArgs(type="forward", target_group_arn=self._hosts().arn)
            ],
            tags=self._named(),
            opts=self.child_options(),
        )
        self.dns_name: pulumi.Output[str] = balancer.dns_name
        self.register_outputs({"dns_name": self.dns_name})

    def _named(self) -> Mapping[str, str]:
        return {"Name": f"{self._args.environment} load balancer"}

    def _let_clients_in(self) -> None:
        planned = self._planned
        for network in planned.clients:
            aws.vpc.SecurityGroupIngressRule(
                f"in-{LOAD_BALANCER}-{network.translate(str.maketrans('./', '--'))}",
                security_group_id=self._args.network.group(LOAD_BALANCER),
                cidr_ipv4=network,
                ip_protocol="tcp",
                from_port=planned.port,
                to_port=planned.port,
                description="clients of the models",
                opts=self.child_options(),
            )

    def _balancer(self) -> aws.lb.LoadBalancer:
        """In every zone, and across zones: the gateway's hosts are in fewer."""
        network, planned = self._args.network, self._planned
        kind = "public" if planned.public else "services"
        return aws.lb.LoadBalancer(
            self._name,
            name=planned.name,
            load_balancer_type="network",
            internal=not planned.public,
            subnets=[network.subnet(kind, zone.name) for zone in self._args.zones],
            security_groups=[network.group(LOAD_BALANCER)],
            enable_cross_zone_load_balancing=True,
            tags=self._named(),
            opts=self.child_options(protect=self.protected),
        )

    def _hosts(self) -> aws.lb.TargetGroup:
        """By address. Hosts see the clients' own addresses, so that access logs have them."""
        planned = self._planned
        group = aws.lb.TargetGroup(
            f"{self._name}-hosts",
            name=planned.name,
            vpc_id=self._args.network.vpc,
            target_type="ip",
            protocol="TCP",
            port=planned.port,
            preserve_client_ip="true",
            deregistration_delay=planned.drain_s,
            # By default AWS cuts the connections of a host that turns unhealthy, as one that drains
            # does.
            target_health_states=[
                aws.lb.TargetGroupTargetHealthStateArgs(
                    enable_unhealthy_connection_termination=False,
                    unhealthy_draining_interval=planned.drain_s,
                )
            ],
            health_check=aws.lb.TargetGroupHealthCheckArgs(
                protocol=planned.health_scheme.upper(),
                path=HEALTH_PATH,
                matcher="200",
                interval=HEALTH_EVERY_S,
                timeout=HEALTH_TIMEOUT_S,
                healthy_threshold=HEALTH_CHANGES,
                unhealthy_threshold=HEALTH_CHANGES,
            ),
            tags=self._named(),
            opts=self.child_options(),
        )
        for host, address in planned.targets.items():
            aws.lb.TargetGroupAttachment(
                f"{self._name}-{host}",
                target_group_arn=group.arn,
                target_id=address,
                port=planned.port,
                opts=self.child_options(),
            )
        return group
