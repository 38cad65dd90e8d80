"""AwsNetwork: where an environment's hosts on AWS are, and which connections they may open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws_network.security_groups import (
    ALL,
    ENDPOINTS,
    HOSTS,
    HTTPS,
    WAY_IN,
    Connection,
    connections,
)
from components.base import SlipwayComponent
from slipway.plan.aws import AwsPlan, AwsZone
from slipway.plan.aws_endpoints import interface_endpoints
from slipway.plan.platform import PlatformPlan

EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsNetworkArgs:
    plan: PlatformPlan
    aws: AwsPlan


class AwsNetwork(SlipwayComponent):
    """A VPC without public addresses, its subnets, its ways to AWS's services, and the security
    groups with their rules.

    Owns everything in the VPC but hosts and load balancers. Leaves nothing alone at run time: what
    somebody else changes is put back by the next update. A replaced subnet or group replaces the
    hosts in it, which `protect` prevents.

    The public subnet of the first zone exists only for a NAT gateway, those of all zones for a
    public load balancer. Nothing is open to everywhere.
    """

    def __init__(
        self, name: str, args: AwsNetworkArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan, self._aws = args.plan, args.aws
        super().__init__("AwsNetwork", name, {"region": args.aws.region}, opts)
        self._environment = plan.environment
        self._kept = self.child_options(protect=self.protected)
        self._vpc = aws.ec2.Vpc(
            name,
            cidr_block=plan.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # private names of interface endpoints need both
            tags=self._named("network"),
            opts=self._kept,
        )
        aws.ec2.DefaultSecurityGroup(  # managing it removes its rules
            f"{name}-default-group",
            vpc_id=self._vpc.id,
            tags=self._named("default, empty"),
            opts=self.child_options(),
        )
        self._subnets = self._private_subnets()
        private = self._route_table("private", self._subnets)
        self._s3 = aws.ec2.VpcEndpoint(
            "endpoint-s3",
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{args.aws.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private.id],
            tags=self._named("s3"),
            opts=self.child_options(),
        )
        allowed = connections(plan, args.aws)
        self._groups = self._security_groups(allowed)
        self._rules(allowed)
        if args.aws.egress == "nat":
            self._nat(private)
        self._interface_endpoints()
        # What reaches hosts depends on it; None where the operator is inside the network.
        self.way_in = self._instance_connect() if plan.ssh and plan.ssh.tunnels else None
        self.register_outputs({})

    def subnet(self, kind: str, zone: str) -> pulumi.Output[str]:
        """Its ID; `kind` is "hosts", "services", "elastic" or "public"."""
        found: pulumi.Output[str] = self._subnets[f"{kind}-{zone}"].id
        return found

    @property
    def vpc(self) -> pulumi.Output[str]:
        """Its ID."""
        found: pulumi.Output[str] = self._vpc.id
        return found

    def group(self, name: str) -> pulumi.Output[str]:
        """The ID of a security group (security_groups.py)."""
        found: pulumi.Output[str] = self._groups[name].id
        return found

    def _named(self, what: str) -> Mapping[str, str]:
        return {"Name": f"{self._environment} {what}"}

    def _private_subnets(self) -> dict[str, aws.ec2.Subnet]:
        found = {}
        for zone in self._aws.zones:
            for kind, cidr in _private(zone):
                found[f"{kind}-{zone.name}"] = aws.ec2.Subnet(
                    f"subnet-{kind}-{zone.name}",
                    vpc_id=self._vpc.id,
                    availability_zone=zone.name,
                    cidr_block=cidr,
                    map_public_ip_on_launch=False,
                    tags=self._named(f"{kind} {zone.name}"),
                    opts=self._kept,
                )
        return found

    def _public_subnets(self) -> dict[str, aws.ec2.Subnet]:
        balancer = self._aws.load_balancer
        zones = self._aws.zones if balancer and balancer.public else self._aws.zones[:1]
        return {
            f"public-{zone.name}": aws.ec2.Subnet(
                f"subnet-public-{zone.name}",
                vpc_id=self._vpc.id,
                availability_zone=zone.name,
                cidr_block=zone.public,
                map_public_ip_on_launch=False,
                tags=self._named(f"public {zone.name}"),
                opts=self.child_options(),
            )
            for zone in zones
        }

    def _route_table(self, name: str, subnets: Mapping[str, aws.ec2.Subnet]) -> aws.ec2.RouteTable:
        table = aws.ec2.RouteTable(
            f"routes-{name}",
            vpc_id=self._vpc.id,
            tags=self._named(name),
            opts=self.child_options(),
        )
        for key, subnet in subnets.items():
            aws.ec2.RouteTableAssociation(
                f"routes-{name}-{key}",
                route_table_id=table.id,
                subnet_id=subnet.id,
                opts=self.child_options(),
            )
        return table

    def _nat(self, private: aws.ec2.RouteTable) -> None:
        """One, in the first zone: without that zone, no host reaches AWS's services; what runs goes
        on."""
        gateway = aws.ec2.InternetGateway(
            "internet",
            vpc_id=self._vpc.id,
            tags=self._named("internet"),
            opts=self.child_options(),
        )
        subnets = self._public_subnets()
        self._subnets |= subnets
        public = self._route_table("public", subnets)
        leaving = aws.ec2.Route(
            "route-internet",
            route_table_id=public.id,
            destination_cidr_block=EVERYWHERE,
            gateway_id=gateway.id,
            opts=self.child_options(),
        )
        address = aws.ec2.Eip(
            "nat", domain="vpc", tags=self._named("nat"), opts=self.child_options()
        )
        nat = aws.ec2.NatGateway(
            "nat-gateway",
            allocation_id=address.id,
            subnet_id=self.subnet("public", self._aws.zones[0].name),
            tags=self._named("nat"),
            opts=self.child_options(depends_on=[leaving]),
        )
        aws.ec2.Route(
            "route-nat",
            route_table_id=private.id,
            destination_cidr_block=EVERYWHERE,
            nat_gateway_id=nat.id,
            opts=self.child_options(),
        )

    def _interface_endpoints(self) -> None:
        """In every zone, so that none is needed by another."""
        wanted = interface_endpoints(self._aws.egress, elastic=bool(self._aws.pools))
        for service, caller in wanted.items():
            aws.ec2.VpcEndpoint(
                f"endpoint-{service}",
                vpc_id=self._vpc.id,
                service_name=f"com.amazonaws.{self._aws.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[self.subnet("services", zone.name) for zone in self._aws.zones],
                security_group_ids=[self.group(ENDPOINTS)],
                tags={**self._named(service), "slipway:why": caller},
                opts=self.child_options(),
            )

    def _instance_connect(self) -> aws.ec2transitgateway.InstanceConnectEndpoint:
        """In the first zone: AWS allows one per network. Hosts see its address, not the
        operator's."""
        return aws.ec2transitgateway.InstanceConnectEndpoint(
            "way-in",
            subnet_id=self.subnet("services", self._aws.zones[0].name),
            security_group_ids=[self.group(WAY_IN)],
            preserve_client_ip=False,
            tags={**self._named("way in"), "slipway:environment": self._environment},
            opts=self.child_options(),
        )

    def _security_groups(self, allowed: tuple[Connection, ...]) -> dict[str, aws.ec2.SecurityGroup]:
        named = dict.fromkeys(name for each in allowed for name in (each.source, each.target))
        return {
            name: aws.ec2.SecurityGroup(
                f"group-{name}",
                name=f"slipway-{self._environment}-{name}",
                description=f"{name} of the Slipway environment {self._environment}",
                vpc_id=self._vpc.id,
                tags=self._named(name),
                opts=self._kept,
            )
            for name in dict.fromkeys([*HOSTS, *named])
        }

    def _rules(self, allowed: tuple[Connection, ...]) -> None:
        for each in allowed:
            name, ports = _rule_name(each), _ports(each)
            aws.vpc.SecurityGroupEgressRule(
                f"out-{name}",
                security_group_id=self.group(each.source),
                referenced_security_group_id=self.group(each.target),
                ip_protocol=each.protocol,
                description=each.reason,
                **ports,
                opts=self.child_options(),
            )
            aws.vpc.SecurityGroupIngressRule(
                f"in-{name}",
                security_group_id=self.group(each.target),
                referenced_security_group_id=self.group(each.source),
                ip_protocol=each.protocol,
                description=each.reason,
                **ports,
                opts=self.child_options(),
            )
        for group in HOSTS:
            self._to_aws(group)

    def _to_aws(self, group: str) -> None:
        """S3's addresses, and with a NAT gateway everybody's: AWS publishes its own only as ranges
        that change."""
        aws.vpc.SecurityGroupEgressRule(
            f"out-{group}-s3",
            security_group_id=self.group(group),
            prefix_list_id=self._s3.prefix_list_id,
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            description="hosts fetch weights and their own documents from S3",
            opts=self.child_options(),
        )
        if self._aws.egress == "nat":
            aws.vpc.SecurityGroupEgressRule(
                f"out-{group}-internet",
                security_group_id=self.group(group),
                cidr_ipv4=EVERYWHERE,
                ip_protocol="tcp",
                from_port=HTTPS,
                to_port=HTTPS,
                description="hosts ask AWS services and download through the NAT gateway",
                opts=self.child_options(),
            )


def _private(zone: AwsZone) -> Iterator[tuple[str, str]]:
    yield "hosts", zone.hosts
    yield "services", zone.services
    yield "elastic", zone.elastic


def _ports(each: Connection) -> dict[str, int]:
    return {} if each.protocol == ALL else {"from_port": each.first_port, "to_port": each.last_port}


def _rule_name(each: Connection) -> str:
    ports = "all" if each.protocol == ALL else f"{each.protocol}-{each.first_port}"
    return f"{each.source}-{each.target}-{ports}"
