"""What a change of AWS's resources means for the platform."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.diff.change import Effect, PathChange
from slipway.diff.digest import read_digest
from slipway.diff.effects import holds_state, outcome
from slipway.diff.verdict import notable, verdict_of
from tests.unit.diff.digests import digest, step

GOLDEN = Path(__file__).parents[2] / "golden/aws"
RECORDED = {
    entry["type"]
    for path in GOLDEN.glob("resources-*.json")
    for entry in json.loads(path.read_text()).values()
}
INSTANCE = "aws:ec2/instance:Instance"
GROUP = "aws:autoscaling/group:Group"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
VOLUME = "aws:ebs/volume:Volume"


def updated(type_: str, *paths: str | tuple[str, str, str]) -> tuple[Effect, str]:
    changes = [
        PathChange(path=path)
        if isinstance(path, str)
        else PathChange(path=path[0], before=path[1], after=path[2])
        for path in paths
    ]
    return outcome("update", type_, {}, changes)


@pytest.mark.parametrize("type_", sorted(each for each in RECORDED if each.startswith("aws:")))
def test_the_loss_of_everything_that_the_program_creates_is_put_in_words(type_: str) -> None:
    if "defaultSecurityGroup" in type_:
        return  # AWS keeps it with the network, whatever is removed here
    effect, words = outcome("delete", type_, {}, [])
    assert effect != "safe"
    assert words
    assert words != outcome("delete", VOLUME, {}, [])[1]


@pytest.mark.parametrize(
    ("type_", "path", "effect", "words"),
    [
        (INSTANCE, "instanceType", "disruptive", "stops and starts again"),
        (INSTANCE, "userData", "disruptive", "stops and starts again"),
        (INSTANCE, "vpcSecurityGroupIds[0]", "disruptive", "other groups"),
        (INSTANCE, "iamInstanceProfile", "safe", "while the machine runs"),
        (INSTANCE, "tags.Name", "safe", ""),
        (GROUP, "launchTemplate.version", "safe", "replaced, a tenth at a time"),
        (GROUP, ("maxSize", "4", "8"), "safe", ""),
        (GROUP, ("maxSize", "8", "4"), "disruptive", "above the new maximum"),
        (GROUP, "maxSize", "disruptive", "above the new maximum"),
        (GROUP, ("minSize", "1", "2"), "safe", "instances start"),
        (TEMPLATE, "userData", "safe", "replaced, a tenth at a time"),
        (TEMPLATE, "tags.Name", "safe", ""),
        ("aws:iam/rolePolicy:RolePolicy", "policy", "safe", "at once"),
        (
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            "cidrIpv4",
            "disruptive",
            "refused",
        ),
        (VOLUME, "size", "disruptive", ""),
    ],
)
def test_an_update_says_what_stops(
    type_: str, path: str | tuple[str, str, str], effect: Effect, words: str
) -> None:
    found, said = updated(type_, path)
    assert (found, words in said, bool(said) >= bool(words)) == (effect, True, True)


def test_machines_and_data_hold_state_and_rules_do_not() -> None:
    held = {type_ for type_ in RECORDED if type_.startswith("aws:") and holds_state(type_, {})}
    assert {type_.rpartition(":")[2] for type_ in held} == {
        "Bucket",
        "Group",
        "Instance",
        "Secret",
        "Subnet",
        "Vpc",
    }


def test_a_new_template_is_a_safe_change_and_a_replaced_host_a_notable_one() -> None:
    old, new = {"userData": "a"}, {"userData": "b"}
    template = step("update", TEMPLATE, "pool-l4-template", old, new, reasons=["userData"])
    assert verdict_of(read_digest(digest(template))) == "safe"
    replaced = step("replace", INSTANCE, "host-edge-0", old, new, reasons=["privateIp"])
    preview = read_digest(digest(replaced))
    assert verdict_of(preview) == "destructive"
    assert [change.consequence for change in notable(preview)] == [
        "the machine ends with its disk, and a new one takes its address"
    ]
