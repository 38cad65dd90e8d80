"""The resources of an environment on AWS and the policies of its roles, as files: the tests of
services/aws play the former to moto's API, and ask moto's evaluator about the latter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from components.aws_hosts.host_keys import public_key
from stacks.platform import Platform
from stacks.recording import SECRET, SIGNATURE, Recording, record
from stacks.targets.aws import TARGET
from tests.components.aws_environments import aws_plan, with_host_keys
from tests.components.golden import assert_golden

SEED = "a seed of no host"
# Between them they have every type of resource that the program uses.
SHOWN = {"endpoints": "endpoints", "nat": "NAT, spot, a key, tags"}


def created(type_: str, name: str) -> Mapping[str, Any]:
    """What AWS alone knows, besides the ID: as in tests/components/recording.py for the others."""
    match type_.rpartition(":")[2]:
        case "LaunchTemplate":
            return {"latestVersion": 1}
        case "VpcEndpoint":
            return {"prefixListId": f"prefix list of {name}"}
        case "LoadBalancer" | "TargetGroup" | "Listener":
            return {"arn": f"id of {name}", "dnsName": f"{name}.example.com"}
        case "RandomPassword":
            return {"result": f"random of {name}"}
        case "SelfSignedCert" | "LocallySignedCert":
            return {"certPem": f"-----BEGIN CERTIFICATE----- of {name}"}
    return {}


def resources(variant: str, monkeypatch: pytest.MonkeyPatch) -> Recording:
    plan = with_host_keys(aws_plan(variant), lambda host: public_key(SEED, "fleet", host))
    monkeypatch.setattr(pulumi.Config, "get_secret", lambda *_: pulumi.Output.secret(SEED))
    return record(lambda: Platform("platform", plan, TARGET), created=created)


def shown(value: Any) -> Any:
    """Whole numbers as such, and no secret."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET:
            return "[secret]"
        return {key: shown(each) for key, each in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [shown(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("name", SHOWN)
def test_the_resources_are_those_that_moto_is_played(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = resources(SHOWN[name], monkeypatch).of_type("aws:")
    content = {
        each.name: {"type": each.type, "inputs": shown(each.inputs)}
        for each in sorted(found, key=lambda each: each.name)
    }
    # Base64 of what test_aws_platform.py reads; a line of it would be no diff for a person.
    for each in content.values():
        each["inputs"].pop("userData", None)
        if "content" in each["inputs"]:
            each["inputs"]["content"] = "{}"
    assert_golden(f"aws/resources-{name}.json", content)


def test_the_policies_of_roles_are_those_that_the_evaluator_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = {}
    for name, variant in SHOWN.items():
        for each in resources(variant, monkeypatch).of_type("aws:iam/rolePolicy"):
            role = shown(each.inputs)["role"]
            content[f"{name}: {role}"] = json.loads(each.text("policy"))
    assert_golden("aws/roles.json", content)
