"""The resources of environments on AWS, as a preview shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import jsonschema
import pytest

from components.aws_hosts.user_data import LIMIT_BYTES
from slipway.plan.platform import PlatformPlan
from stacks.platform import Platform
from stacks.recording import SECRET, SIGNATURE, UNKNOWN, Recording, Registration
from stacks.targets.aws import TARGET
from tests.components.aws_environments import VARIANTS, aws_plan
from tests.components.recording import record
from tests.components.sdk_inputs import deviations
from tests.unit.config.checkout import ROOT

DELIVERY = json.loads((ROOT / "schemas/delivery.schema.json").read_text())
INSTANCE, TEMPLATE = "aws:ec2/instance:Instance", "aws:ec2/launchTemplate:LaunchTemplate"
SUBNET, GROUP = "aws:ec2/subnet:Subnet", "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
POLICY, SECRET_VERSION = "aws:iam/rolePolicy:RolePolicy", "aws:secretsmanager/secretVersion"


def recorded(plan: PlatformPlan) -> Recording:
    return record(lambda: Platform("platform", plan, TARGET), preview=True)


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plan(variant: str) -> PlatformPlan:
    return aws_plan(variant)


@pytest.fixture(scope="module")
def preview(plan: PlatformPlan) -> Recording:
    return recorded(plan)


def of_aws(preview: Recording) -> list[Registration]:
    return [*preview.of_type("aws:"), *preview.of_type("pulumi:providers:aws")]


def test_every_input_is_one_that_the_sdk_declares(preview: Recording) -> None:
    assert [each for found in of_aws(preview) for each in deviations(found)] == []


def test_a_second_preview_is_the_same_to_the_byte(plan: PlatformPlan, preview: Recording) -> None:
    again = recorded(plan)
    assert [(each.urn, each.inputs) for each in preview.depth_first()] == [
        (each.urn, each.inputs) for each in again.depth_first()
    ]


def test_no_document_waits_for_a_value_that_only_aws_knows(preview: Recording) -> None:
    texts = {
        f"{found.name}.{key}": value
        for found in preview.by_urn.values()
        for key, value in found.inputs.items()
        if key in ("userData", "policy", "assumeRolePolicy", "jobspec", "create", "environment")
    }
    assert any(name.endswith(".userData") for name in texts)
    assert [name for name, value in texts.items() if UNKNOWN in str(value)] == []


def test_every_fixed_host_is_an_instance_with_the_address_of_the_plan(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    planned = {server.name: server.address for server in plan.servers}
    planned |= {node.name: node.address for pool in plan.pools for node in pool.hosts}
    found = {each.name: each for each in preview.of_type(INSTANCE)}
    assert {name.removeprefix("host-"): each.text("privateIp") for name, each in found.items()} == (
        planned
    )
    subnets = {each.text("cidrBlock") for each in preview.of_type(SUBNET)}
    for name, address in planned.items():
        zone = next(each for each in plan.aws.zones if each.name == plan.aws.hosts[name].zone)
        assert zone.hosts in subnets
        assert ip_address(address) in ip_network(zone.hosts)
        host = found[f"host-{name}"]
        assert (host.protect, host.ignore_changes) == (True, ("launchTemplate", "userData"))
        assert host.inputs["associatePublicIpAddress"] is False


def test_roots_are_encrypted_and_metadata_needs_a_token_one_hop_away(
    plan: PlatformPlan, preview: Recording
) -> None:
    assert plan.aws is not None
    templates = preview.of_type(TEMPLATE)
    assert len(templates) == len(plan.aws.hosts)
    for template in templates:
        options = template.inputs["metadataOptions"]
        assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)
        (root,) = template.inputs["blockDeviceMappings"]
        assert root["ebs"]["encrypted"] == "true"
        assert root["ebs"].get("kmsKeyId", "") == plan.aws.kms_key
        host = template.name.removeprefix("template-")
        assert root["ebs"]["volumeSize"] == plan.aws.hosts[host].root_gib
        image = plan.aws.hosts[host].image
        assert root["deviceName"] == image.root_device
        assert template.text("imageId") in (image.name, f"resolve:ssm:{image.name}")


def test_user_data_fits_and_has_the_same_programs_on_every_host(preview: Recording) -> None:
    hosts = {each.name: each.text("userData") for each in preview.of_type(INSTANCE)}
    assert all(len(text.encode()) <= LIMIT_BYTES for text in hosts.values())
    bodies = {text.replace(name.removeprefix("host-"), "HOST") for name, text in hosts.items()}
    assert len(bodies) == 1


def test_a_host_may_read_its_own_secret_and_nothing_else(preview: Recording) -> None:
    for policy in preview.of_type(POLICY):
        host = policy.name.removeprefix("role-").removesuffix("-own-secret")
        reading, *decrypting = json.loads(policy.text("policy"))["Statement"]
        assert reading["Action"] == "secretsmanager:GetSecretValue"
        assert reading["Resource"] == (
            f"arn:aws:secretsmanager:us-east-1:*:secret:slipway/fleet/hosts/{host}-??????"
        )
        assert [each["Action"] for each in decrypting] in ([], ["kms:Decrypt"])
        assert all("kms:ViaService" in str(each["Condition"]) for each in decrypting)


def test_ssh_host_keys_are_secrets_of_the_state(preview: Recording) -> None:
    versions = preview.of_type(SECRET_VERSION)
    assert versions
    for version in versions:
        assert version.inputs["secretString"][SIGNATURE] == SECRET


def test_rules_come_in_pairs_with_a_reason_and_nothing_is_open_to_everywhere(
    preview: Recording,
) -> None:
    into = {each.name.removeprefix("in-"): each.inputs for each in preview.of_type(INGRESS)}
    out = {each.name.removeprefix("out-"): each.inputs for each in preview.of_type(EGRESS)}
    assert set(into) <= set(out)
    assert all("referencedSecurityGroupId" in rule for rule in into.values())
    for name, rule in into.items():
        assert _without_groups(rule) == _without_groups(out[name])
    assert all(rule["description"] for rule in (*into.values(), *out.values()))
    others = {name: rule for name, rule in out.items() if name not in into}
    assert all("prefixListId" in rule or "cidrIpv4" in rule for rule in others.values())
    for group in preview.of_type(GROUP):
        assert not {"ingress", "egress"} & set(group.inputs)


def _without_groups(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if "SecurityGroup" not in key}


def test_only_nat_leads_out_of_the_network(variant: str, preview: Recording) -> None:
    everywhere = [each.name for each in preview.by_urn.values() if "0.0.0.0/0" in str(each.inputs)]
    nat = {"route-internet", "route-nat", *(f"out-{g}-internet" for g in GROUPS)}
    assert set(everywhere) == (nat if "NAT" in variant else set())


GROUPS = ("servers", "gateway", "nodes")


def test_what_runs_on_a_host_waits_for_its_machine(preview: Recording) -> None:
    for instance in preview.of_type(INSTANCE):
        host = instance.name.removeprefix("host-")
        assert instance.name in preview[f"delivery-{host}"].depends_on


def test_the_way_in_is_an_endpoint_only_where_the_operator_is_outside() -> None:
    way_in = "aws:ec2transitgateway/instanceConnectEndpoint:InstanceConnectEndpoint"
    assert recorded(aws_plan()).of_type(way_in) == []
    plan = aws_plan("through EC2 Instance Connect")
    preview = recorded(plan)
    (endpoint,) = preview.of_type(way_in)
    assert endpoint.inputs["preserveClientIp"] is False
    assert endpoint.inputs["tags"]["slipway:environment"] == "fleet"
    for host in plan.aws.hosts if plan.aws else ():
        delivery = preview[f"delivery-{host}"]
        assert endpoint.name in delivery.depends_on
        document = json.loads(delivery.inputs["environment"]["SLIPWAY_DOCUMENT"])
        assert document["ssh"]["address"].startswith("127.")
        assert document["ssh"]["port"] == 22022
        assert document["boots_within_s"] > 0
        jsonschema.validate(document, DELIVERY)


def test_before_the_first_up_a_preview_needs_no_host_keys() -> None:
    preview = recorded(aws_plan(host_keys=False))
    assert preview.of_type(INSTANCE)


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a key of another spelling": (INSTANCE, {"privateIP": "10.0.0.1"}, "privateIP is not an input"),
    "a key inside": (
        TEMPLATE,
        {"metadataOptions": {"httpToken": "x"}},
        "httpToken is not an input",
    ),
    "a number as text": (INSTANCE, {"cpuOptions": {"coreCount": "2"}}, "its type is <class 'int'>"),
    "a text as list": (INSTANCE, {"vpcSecurityGroupIds": "sg-1"}, "its type is"),
    "a list inside": (TEMPLATE, {"tagSpecifications": [{"tags": ["a"]}]}, "its type is"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_input_is_found(mistake: str) -> None:
    type_, change, said = MISTAKES[mistake]
    found = recorded(aws_plan()).of_type(type_)[0]
    found.inputs.update(change)
    (deviation,) = deviations(found)
    assert said in deviation


def test_a_missing_input_is_found() -> None:
    found = recorded(aws_plan()).of_type(SUBNET)[0]
    del found.inputs["vpcId"]
    assert [*deviations(found)] == [f"{found.name}.vpcId is required by SubnetArgs"]
