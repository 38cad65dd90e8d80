"""What an account has, by kind: python listing.py ENDPOINT REGION

Of AWS's API as moto plays it. Run by the environment of services/aws's tests.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import boto3

# Service, call, its list, and what names an entry of it.
KINDS = (
    ("ec2", "describe_vpcs", "Vpcs", "VpcId"),
    ("ec2", "describe_subnets", "Subnets", "SubnetId"),
    ("ec2", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("ec2", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ("ec2", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("ec2", "describe_addresses", "Addresses", "AllocationId"),
    ("ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("ec2", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("ec2", "describe_security_group_rules", "SecurityGroupRules", "SecurityGroupRuleId"),
    ("ec2", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateName"),
    ("ec2", "describe_instances", "Reservations", "ReservationId"),
    ("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", "AutoScalingGroupName"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    ("secretsmanager", "list_secrets", "SecretList", "Name"),
    ("s3", "list_buckets", "Buckets", "Name"),
)
ENDED = ("deleted", "terminated")


def listing(endpoint: str, region: str) -> dict[str, list[str]]:
    return {
        kind: sorted(each[name] for each in _entries(endpoint, region, service, call, kind))
        for service, call, kind, name in KINDS
    }


def _entries(endpoint: str, region: str, service: str, call: str, kind: str) -> list[Any]:
    """Without those that AWS lists for a while after their end."""
    client = boto3.client(
        service,
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id="operator",
        aws_secret_access_key="operator",
    )
    found = getattr(client, call)()[kind]
    return [each for each in found if not _ended(each)]


def _ended(entry: dict[str, Any]) -> bool:
    instances = entry.get("Instances", [])
    if instances:
        return all(each["State"]["Name"] in ENDED for each in instances)
    return entry.get("State") in ENDED


if __name__ == "__main__":
    print(json.dumps(listing(*sys.argv[1:])))
