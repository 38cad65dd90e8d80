"""Every resource of environments on AWS is a valid call of AWS's API; moto stores what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from api_calls import Call, calls_of, template_data
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator
from conftest import REGION
from moto import mock_aws

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "aws"
NAMES = ("endpoints", "nat")
# Resources whose answer has the ID by which others name them.
IDS = {
    "create_vpc": ("Vpc", "VpcId"),
    "create_subnet": ("Subnet", "SubnetId"),
    "create_route_table": ("RouteTable", "RouteTableId"),
    "create_internet_gateway": ("InternetGateway", "InternetGatewayId"),
    "allocate_address": ("AllocationId",),
    "create_nat_gateway": ("NatGateway", "NatGatewayId"),
    "create_security_group": ("GroupId",),
    "create_launch_template": ("LaunchTemplate", "LaunchTemplateId"),
    "create_secret": ("ARN",),
    "create_load_balancer": ("LoadBalancers", 0, "LoadBalancerArn"),
    "create_target_group": ("TargetGroups", 0, "TargetGroupArn"),
}
STARTED = ("instance", "volume")
REFERENCE = re.compile(r"(id|prefix list) of (.+)")
S3_LIST = "pl-63a5400a"  # S3's in us-east-1


def resources(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((GOLDEN / f"resources-{name}.json").read_text())
    return found


def client(service: str) -> Any:
    return boto3.client(
        service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x"
    )


def problems(call: Call) -> list[str]:
    """Of the call's parameters, by the shapes of botocore's own model of the service."""
    made = client(call.service)
    name = made.meta.method_to_api_mapping[call.operation]
    shape = made.meta.service_model.operation_model(name).input_shape
    found = ParamValidator().validate(call.parameters, shape)
    said = [found.generate_report()] if found.has_errors() else []
    return [*said, *_wrong_enums(call.parameters, shape, call.operation)]


def _wrong_enums(value: Any, shape: Shape, place: str) -> Iterator[str]:
    """botocore checks shapes and required members, but no enumerations."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        for key, each in value.items():
            if key in shape.members:
                yield from _wrong_enums(each, shape.members[key], f"{place}.{key}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for each in value:
            yield from _wrong_enums(each, shape.member, place)
    elif isinstance(shape, MapShape) and isinstance(value, Mapping):
        for each in value.values():
            yield from _wrong_enums(each, shape.value, place)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{place} is {value!r}, not one of {shape.enum}"


@pytest.mark.parametrize("name", NAMES)
def test_every_resource_is_a_valid_call(name: str) -> None:
    wrong = {
        (resource, problem)
        for resource, each in resources(name).items()
        for call in calls_of(each["type"], each["inputs"])
        for problem in problems(call)
    }
    assert wrong == set()


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "an enumeration": ("pool-h100-template", {"metadataOptions": {"httpTokens": "always"}}),
    "a key": ("pool-h100-template", {"metadataOptions": {"httpToken": "required"}}),
    "a type": ("pool-h100-group", {"minSize": "1"}),
    "a strategy": ("pool-h100-placement", {"strategy": "close"}),
    "a kind of interface": ("pool-h100-template", {"instanceMarketOptions": {"marketType": "x"}}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_aws_would_refuse_is_found(case: str) -> None:
    resource, change = WRONG[case]
    each = resources("endpoints")[resource]
    (call,) = calls_of(each["type"], {**each["inputs"], **change})
    assert problems(call)


def _rank(type_: str) -> int:
    """moto heeds no condition of a bucket's policy: after it, it would take no object."""
    first, last = ("Role", "RolePolicy", "InstanceProfile", "PlacementGroup"), "BucketPolicy"
    name = type_.rpartition(":")[2]
    return first.index(name) if name in first else len(first) + (name == last)


class Account:
    """An empty account, in which resources are created once what they name exists."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def create(self, wanted: Mapping[str, dict[str, Any]]) -> None:
        """What is named by its name instead of an ID comes first."""
        left = dict(sorted(wanted.items(), key=lambda each: _rank(each[1]["type"])))
        while left:
            able = [name for name in left if self._names_only_what_exists(left[name]["inputs"])]
            assert able, f"these wait for each other: {sorted(left)}"
            others = [name for name in able if not left[name]["type"].endswith(":BucketPolicy")]
            for name in others or able:
                each = left.pop(name)
                for call in calls_of(each["type"], self.resolved(each["inputs"])):
                    self._make(name, call)
                self.ids.setdefault(name, name)

    def resolved(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.resolved(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.resolved(each) for each in value]
        if isinstance(value, str) and (found := REFERENCE.fullmatch(value)):
            return S3_LIST if found[1] == "prefix list" else self.ids[found[2]]
        return value

    def _names_only_what_exists(self, inputs: Any) -> bool:
        names = re.findall(r'"(?:id|prefix list) of ([^"]+)"', json.dumps(inputs))
        return all(name in self.ids for name in names)

    def _make(self, name: str, call: Call) -> None:
        if not call.played:
            return
        parameters = call.parameters
        if call.operation == "run_instances":
            # moto wants the image itself, and starts none by a template that has a parameter's.
            parameters = {**parameters, "ImageId": "ami-12c6146b"}
        answer = getattr(client(call.service), call.operation)(**parameters)
        if call.operation in IDS:
            found: Any = answer
            for part in IDS[call.operation]:
                found = found[part]
            self.ids[name] = found
        elif call.operation == "create_bucket":
            self.ids[name] = parameters["Bucket"]


@pytest.fixture(scope="module", params=NAMES)
def built(request: pytest.FixtureRequest) -> Iterator[tuple[Account, dict[str, dict[str, Any]]]]:
    with mock_aws():
        account, wanted = Account(), resources(request.param)
        account.create(wanted)
        yield account, wanted


Built = tuple[Account, dict[str, dict[str, Any]]]


def of_type(wanted: Mapping[str, dict[str, Any]], suffix: str) -> dict[str, dict[str, Any]]:
    return {
        name: each["inputs"] for name, each in wanted.items() if each["type"].endswith(f":{suffix}")
    }


def test_templates_are_stored_as_they_are(built: Built) -> None:
    account, wanted = built
    for name, inputs in of_type(wanted, "LaunchTemplate").items():
        listed = client("ec2").describe_launch_template_versions(LaunchTemplateId=account.ids[name])
        (version,) = listed["LaunchTemplateVersions"]
        stored = version["LaunchTemplateData"]
        # moto puts the template's own tags among those of what it starts.
        stored["TagSpecifications"] = [
            each for each in stored["TagSpecifications"] if each["ResourceType"] in STARTED
        ]
        assert stored == template_data(account.resolved(inputs))


def test_groups_of_rules_have_exactly_those(built: Built) -> None:
    account, wanted = built
    for kind, key in (("Ingress", "IpPermissions"), ("Egress", "IpPermissionsEgress")):
        for name in of_type(wanted, "SecurityGroup"):
            group = account.ids[name]
            (found,) = client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]
            rules = of_type(wanted, f"SecurityGroup{kind}Rule").values()
            own = [
                each for each in map(account.resolved, rules) if each["securityGroupId"] == group
            ]
            assert _pairs(found[key]) >= {
                (
                    each["ipProtocol"],
                    each.get("fromPort"),
                    each.get("referencedSecurityGroupId"),
                    each["description"],
                )
                for each in own
                if "referencedSecurityGroupId" in each
            }


def _pairs(permissions: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {
        (each["IpProtocol"], each.get("FromPort"), pair["GroupId"], pair.get("Description"))
        for each in permissions
        for pair in each["UserIdGroupPairs"]
    }


def test_instances_have_their_addresses_and_subnets(built: Built) -> None:
    account, wanted = built
    reservations = client("ec2").describe_instances()["Reservations"]
    running = {
        each["PrivateIpAddress"]: each for found in reservations for each in found["Instances"]
    }
    for inputs in map(account.resolved, of_type(wanted, "Instance").values()):
        assert running[inputs["privateIp"]]["SubnetId"] == inputs["subnetId"]


def test_groups_scale_within_their_bounds_in_their_subnets(built: Built) -> None:
    account, wanted = built
    listed = client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    found = {each["AutoScalingGroupName"]: each for each in listed}
    for inputs in map(account.resolved, of_type(wanted, "Group").values()):
        group = found[inputs["name"]]
        assert (group["MinSize"], group["MaxSize"]) == (inputs["minSize"], inputs["maxSize"])
        assert group["VPCZoneIdentifier"].split(",") == inputs["vpcZoneIdentifiers"]
        assert group["CapacityRebalance"] is inputs["capacityRebalance"]
        assert group["LaunchTemplate"]["Version"] == inputs["launchTemplate"]["version"]


def test_groups_wait_at_their_hooks(built: Built) -> None:
    account, wanted = built
    for inputs in map(account.resolved, of_type(wanted, "LifecycleHook").values()):
        (hook,) = client("autoscaling").describe_lifecycle_hooks(
            AutoScalingGroupName=inputs["autoscalingGroupName"], LifecycleHookNames=[inputs["name"]]
        )["LifecycleHooks"]
        assert hook["LifecycleTransition"] == inputs["lifecycleTransition"]
        assert hook["DefaultResult"] == inputs["defaultResult"]
        assert hook["HeartbeatTimeout"] == inputs["heartbeatTimeout"]


def test_roles_and_the_bucket_have_their_policies(built: Built) -> None:
    account, wanted = built
    for inputs in of_type(wanted, "RolePolicy").values():
        stored = client("iam").get_role_policy(RoleName=inputs["role"], PolicyName=inputs["name"])
        assert stored["PolicyDocument"] == json.loads(inputs["policy"])
    (policy,) = of_type(wanted, "BucketPolicy").values()
    bucket = account.resolved(policy)["bucket"]
    assert client("s3").get_bucket_policy(Bucket=bucket)["Policy"] == policy["policy"]
    private = client("s3").get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(private.values()) == {True}


def test_the_load_balancer_has_the_hosts_of_the_gateway_behind_it(built: Built) -> None:
    account, wanted = built
    for name, inputs in of_type(wanted, "TargetGroup").items():
        elb, group = client("elbv2"), account.ids[name]
        (stored,) = elb.describe_target_groups(TargetGroupArns=[group])["TargetGroups"]
        assert (stored["Port"], stored["HealthCheckPath"]) == (inputs["port"], "/healthz")
        found = elb.describe_target_health(TargetGroupArn=group)["TargetHealthDescriptions"]
        hosts = {each["targetId"] for each in of_type(wanted, "TargetGroupAttachment").values()}
        assert {each["Target"]["Id"] for each in found} == hosts
    assert of_type(wanted, "TargetGroup") or not of_type(wanted, "LoadBalancer")
