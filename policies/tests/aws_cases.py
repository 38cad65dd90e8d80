"""For every rule about AWS: recorded inputs of an environment, changed until they violate it.

The inputs are those of the recorded environment (tests/golden/aws), so that every rule is first
seen to be silent about what the program really creates.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cases import CANARY, CASES, MISSING, Build, Case, resource
from rules.facts import UNKNOWN
from rules.rule import Resource

GOLDEN = Path(__file__).parents[2] / "tests/golden/aws"
RECORDED = {
    variant: json.loads((GOLDEN / f"resources-{variant}.json").read_text())
    for variant in ("endpoints", "nat")
}


def recorded(name: str) -> Build:
    """A builder from the inputs of the environment that is reached through endpoints."""
    entry = RECORDED["endpoints"][name]
    return resource(entry["type"], name, entry["inputs"])


def statements(name: str, key: str, *changes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """For each change, the policy under `key` with its first statement changed."""
    policy = json.loads(RECORDED["endpoints"][name]["inputs"][key])
    found = []
    for change in changes:
        document = copy.deepcopy(policy)
        first = document["Statement"][0]
        first.update({each: new for each, new in change.items() if new is not MISSING})
        for each in (each for each, new in change.items() if new is MISSING):
            del first[each]
        found.append({key: json.dumps(document)})
    return found


def user_data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ingress = recorded("in-gateway-gateway-tcp-18001")
egress = recorded("out-fabric-h100-fabric-h100-all")
security_group = recorded("group-nodes")
default_group = recorded("network-default-group")
subnet = recorded("subnet-elastic-us-east-1a")
instance = recorded("host-edge-0")
template = recorded("pool-h100-template")
plain_template = recorded("template-edge-0")
group = recorded("pool-l4-group")
role = recorded("pool-l4-role")
role_policy = recorded("pool-l4-role-nodes")
host_policy = recorded("role-edge-0-own-secret")
load_balancer = recorded("load-balancer")
bucket_access = recorded("bucket-private")
bucket_policy = recorded("bucket-tls")

SECRET = "arn:aws:secretsmanager:us-east-1:*:secret:slipway/fleet"
NO_DOCUMENT: Sequence[Mapping[str, Any]] = (
    {"policy": UNKNOWN},
    {"policy": MISSING},
    {"policy": "{}"},
    {"policy": "not JSON"},
)
BLOCK = {"instanceMarketOptions": {"marketType": "capacity-block"}}

AWS_CASES: Mapping[str, Sequence[Case]] = {
    # Network
    "open-to-everywhere": [
        Case(
            build=ingress,
            violating=[
                {"cidrIpv4": "0.0.0.0/0"},
                {"cidrIpv4": "128.0.0.0/1"},
                {"cidrIpv6": "::/0"},
                {"cidrIpv6": "2000::/3"},
            ],
            passing=[{"cidrIpv4": "10.0.0.0/8"}, {"cidrIpv6": "2001:db8::/32"}],
            unknown=[{"cidrIpv4": UNKNOWN}, {"cidrIpv6": "everywhere"}],
        )
    ],
    "rule-without-reason": [
        Case(
            build=build,
            violating=[{"description": MISSING}, {"description": " "}],
            unknown=[{"description": UNKNOWN}],
        )
        for build in (ingress, egress)
    ],
    "public-load-balancer": [
        Case(
            build=load_balancer,
            violating=[{"internal": False}, {"internal": MISSING}],
            unknown=[{"internal": UNKNOWN}],
        )
    ],
    "rules-inside-group": [
        Case(
            build=build,
            violating=[{"ingress": [{"protocol": "-1", "self": True}]}, {"egress": [{}]}],
            passing=[{"ingress": [], "egress": []}],
            unknown=[{"ingress": UNKNOWN}],
        )
        for build in (security_group, default_group)
    ],
    "public-address": [
        Case(
            build=instance,
            violating=[{"associatePublicIpAddress": True}],
            passing=[{"associatePublicIpAddress": MISSING}],
            unknown=[{"associatePublicIpAddress": UNKNOWN}],
        ),
        Case(
            build=subnet,
            violating=[{"mapPublicIpOnLaunch": True}],
            unknown=[{"mapPublicIpOnLaunch": UNKNOWN}],
        ),
        Case(
            build=template,
            violating=[{"networkInterfaces.0.associatePublicIpAddress": "true"}],
            passing=[{"networkInterfaces.0.associatePublicIpAddress": "false"}],
            unknown=[{"networkInterfaces": UNKNOWN}],
        ),
    ],
    # Machines
    "metadata-without-token": [
        Case(
            build=template,
            violating=[
                {"metadataOptions.httpTokens": "optional"},
                {"metadataOptions.httpTokens": MISSING},
                {"metadataOptions": MISSING},
            ],
            unknown=[{"metadataOptions.httpTokens": UNKNOWN}],
        ),
        Case(
            build=instance,
            violating=[{"metadataOptions.httpTokens": "optional"}],
            passing=[{"metadataOptions.httpTokens": "required"}],
            unknown=[{"metadataOptions": UNKNOWN}],
        ),
    ],
    "metadata-hop-limit": [
        Case(
            build=template,
            violating=[
                {"metadataOptions.httpPutResponseHopLimit": 2},
                {"metadataOptions.httpPutResponseHopLimit": MISSING},
            ],
            unknown=[{"metadataOptions.httpPutResponseHopLimit": UNKNOWN}],
        )
    ],
    "unencrypted-volume": [
        Case(
            build=template,
            violating=[
                {"blockDeviceMappings.0.ebs.encrypted": "false"},
                {"blockDeviceMappings.0.ebs.encrypted": MISSING},
            ],
            unknown=[{"blockDeviceMappings": UNKNOWN}],
        ),
        Case(
            build=instance,
            violating=[
                {"rootBlockDevice": {"volumeSize": 10}},
                {"ebsBlockDevices": [{"deviceName": "/dev/sdb", "encrypted": False}]},
            ],
            passing=[{"rootBlockDevice": {"encrypted": True}}],
            unknown=[{"rootBlockDevice": UNKNOWN}],
        ),
    ],
    "moving-template-version": [
        Case(
            build=build,
            violating=[
                {"launchTemplate.version": "$Latest"},
                {"launchTemplate.version": "$Default"},
                {"launchTemplate.version": MISSING},
            ],
            passing=[{"launchTemplate.version": UNKNOWN}, {"launchTemplate": MISSING}],
            unknown=[{"launchTemplate": UNKNOWN}],
        )
        for build in (group, instance)
    ],
    "desired-capacity-is-not-minimum": [
        Case(
            build=group,
            violating=[{"desiredCapacity": 3}, {"maxSize": 0, "minSize": 1, "desiredCapacity": 1}],
            passing=[{"desiredCapacity": MISSING}],
            unknown=[{"desiredCapacity": UNKNOWN}, {"minSize": MISSING}],
        )
    ],
    "secret-in-user-data": [
        Case(
            build=template,
            violating=[
                {"userData": user_data(f"#!/bin/sh\nexport HF_TOKEN={CANARY}\n")},
                {"userData": user_data('{"password": "hunter2"}')},
            ],
            passing=[{"userData": user_data("#!/bin/sh\nexec python3 boot.py\n")}],
            unknown=[{"userData": UNKNOWN}],
        ),
        Case(
            build=instance,
            violating=[
                {"userData": f"#!/bin/sh\necho {CANARY}\n"},
                {"userDataBase64": user_data("-----BEGIN OPENSSH PRIVATE KEY-----")},
            ],
            passing=[{"userData": "#!/bin/sh\nexec python3 host_key.py\n"}],
            unknown=[{"userDataBase64": UNKNOWN}],
        ),
    ],
    "market-against-reservation": [
        Case(
            build=template,
            violating=[
                {"instanceMarketOptions": {"marketType": "spot"}},
                {**BLOCK, "capacityReservationSpecification": MISSING},
                {**BLOCK, "placement": {"groupName": "slipway-fleet-h100"}},
            ],
            passing=[
                {**BLOCK, "placement": MISSING},
                {
                    "instanceMarketOptions": {"marketType": "spot"},
                    "capacityReservationSpecification": MISSING,
                },
            ],
            unknown=[{"instanceMarketOptions": UNKNOWN}, {**BLOCK, "placement": UNKNOWN}],
        )
    ],
    "network-interfaces": [
        Case(
            build=template,
            violating=[
                {"networkInterfaces.1.deviceIndex": 0},
                {"networkInterfaces.0.networkCardIndex": 40},
                {"networkInterfaces.0.interfaceType": "efa-only"},
            ],
            passing=[{"networkInterfaces": []}, {"networkInterfaces.0.networkCardIndex": MISSING}],
            unknown=[
                {"networkInterfaces": UNKNOWN},
                {"networkInterfaces.0.deviceIndex": MISSING},
            ],
        )
    ],
    # Permissions
    "reads-secret-of-others": [
        Case(
            build=role_policy,
            violating=[
                *statements(
                    "pool-l4-role-nodes",
                    "policy",
                    {"Resource": f"{SECRET}/pools/h100-??????"},
                    {"Resource": f"{SECRET}/pools/*-??????"},
                    {"Resource": f"{SECRET}/hosts/l4-??????"},
                    {"Resource": [f"{SECRET}/pools/{pool}-??????" for pool in ("l4", "h100")]},
                    {"Resource": "*"},
                    {"Action": ["secretsmanager:get*"], "Resource": "*"},
                ),
                {"role": "slipway-fleet-pool-h100"},
            ],
            passing=statements(
                "pool-l4-role-nodes",
                "policy",
                {"Effect": "Deny", "Resource": "*"},
                {"Action": "kms:Decrypt", "Resource": "arn:aws:kms:us-east-1:1:key/2"},
            ),
            unknown=[*NO_DOCUMENT, {"role": UNKNOWN}],
        ),
        Case(
            build=host_policy,
            violating=statements(
                "role-edge-0-own-secret", "policy", {"Resource": f"{SECRET}/hosts/edge-1-??????"}
            ),
            unknown=NO_DOCUMENT,
        ),
    ],
    "wide-role": [
        Case(
            build=role_policy,
            violating=statements(
                "pool-l4-role-nodes",
                "policy",
                {"Action": "*"},
                {"Action": ["ec2:*"]},
                {"Action": MISSING, "NotAction": "iam:*"},
                {"Resource": "*"},
                {"Resource": MISSING, "NotResource": "arn:aws:s3:::other"},
            ),
            passing=statements(
                "pool-l4-role-nodes",
                "policy",
                {
                    "Action": "kms:Decrypt",
                    "Resource": "*",
                    "Condition": {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}},
                },
            ),
            unknown=NO_DOCUMENT,
        )
    ],
    "role-for-others": [
        Case(
            build=role,
            violating=statements(
                "pool-l4-role",
                "assumeRolePolicy",
                {"Principal": {"AWS": "*"}},
                {"Principal": {"AWS": "arn:aws:iam::123456789012:root"}},
                {"Principal": {"Service": ["ec2.amazonaws.com", "lambda.amazonaws.com"]}},
            ),
            unknown=[{"assumeRolePolicy": UNKNOWN}, {"assumeRolePolicy": MISSING}],
        )
    ],
    "public-bucket": [
        Case(
            build=bucket_access,
            violating=[
                {"blockPublicAcls": False},
                {"blockPublicPolicy": MISSING},
                {"ignorePublicAcls": False},
                {"restrictPublicBuckets": False},
            ],
            unknown=[{"restrictPublicBuckets": UNKNOWN}],
        )
    ],
    "bucket-policy": [
        Case(
            build=bucket_policy,
            violating=statements(
                "bucket-tls",
                "policy",
                {"Effect": "Allow"},
                {"Condition": {"Bool": {"aws:SecureTransport": "true"}}},
                {"Action": "s3:GetObject"},
            ),
            unknown=NO_DOCUMENT,
        )
    ],
    # Data
    "unprotected": [
        Case(build=build, violating=[{"protect": False}], unknown=[{"protect": None}])
        for build in (instance, group)
    ],
}


ALL_CASES: Mapping[str, Sequence[Case]] = {
    rule: [*CASES.get(rule, ()), *AWS_CASES.get(rule, ())] for rule in {**CASES, **AWS_CASES}
}


def as_previewed(value: Any) -> Any:
    """The value with UNKNOWN for everything that AWS decides, as before the first `up`."""
    if isinstance(value, Mapping):
        return {key: as_previewed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_previewed(each) for each in value]
    return UNKNOWN if isinstance(value, str) and value.startswith("id of ") else value


def recorded_resources(variant: str) -> Sequence[Resource]:
    """Everything of a recorded environment, as the first preview shows it."""
    return [
        resource(entry["type"], name, as_previewed(entry["inputs"]))({})
        for name, entry in RECORDED[variant].items()
    ]
