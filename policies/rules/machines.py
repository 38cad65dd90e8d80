"""What AWS starts: launch templates, instances and Auto Scaling groups."""

from __future__ import annotations

import base64
import binascii
import collections
from collections.abc import Iterator, Mapping
from typing import Any

from rules.credentials import holds_secret
from rules.facts import (
    flag_or_none,
    mapping,
    mappings,
    number,
    number_or_none,
    text,
    text_or_none,
)
from rules.rule import (
    ALWAYS,
    AWS_AUTO_SCALING_GROUP,
    AWS_INSTANCE,
    AWS_LAUNCH_TEMPLATE,
    Resource,
    rule,
)


@rule(
    AWS_LAUNCH_TEMPLATE,
    AWS_INSTANCE,
    severity=ALWAYS,
    why="With IMDSv1 one forged request of a program on the machine (SSRF) reads its role's"
    " credentials.",
    fix="Set `httpTokens: required` in the template's `metadataOptions`.",
)
def metadata_without_token(machine: Resource) -> Iterator[str]:
    """Machines read their metadata with a token only (IMDSv2)"""
    if not _says(machine, "metadataOptions"):
        return
    if text_or_none(machine.props, "metadataOptions.httpTokens") != "required":
        yield "answers metadata requests without a token"


@rule(
    AWS_LAUNCH_TEMPLATE,
    AWS_INSTANCE,
    severity=ALWAYS,
    why="With two hops containers with a network of their own reach the metadata service, so"
    " node's role: its secret, and the right to join as a node.",
    fix="Set `httpPutResponseHopLimit: 1` in the template's `metadataOptions`.",
)
def metadata_hop_limit(machine: Resource) -> Iterator[str]:
    """Metadata is answered one hop away, not to containers' own networks"""
    if not _says(machine, "metadataOptions"):
        return
    if number_or_none(machine.props, "metadataOptions.httpPutResponseHopLimit") != 1:
        yield "answers metadata requests from more than one hop away"


@rule(
    AWS_LAUNCH_TEMPLATE,
    AWS_INSTANCE,
    severity=ALWAYS,
    why="A volume holds the node's keys, the clusters' state, and models that may be private.",
    fix="Set `encrypted` on every volume; without `slipway:aws.kms_key` the account's key is used.",
)
def unencrypted_volume(machine: Resource) -> Iterator[str]:
    """Volumes are encrypted"""
    for device in mappings(machine.props, "blockDeviceMappings"):
        if mapping(device, "ebs") and not flag_or_none(device, "ebs.encrypted"):
            yield f"has an unencrypted volume at {text(device, 'deviceName')}"
    for device in mappings(machine.props, "ebsBlockDevices"):
        if not flag_or_none(device, "encrypted"):
            yield f"has an unencrypted volume at {text(device, 'deviceName')}"
    root = mapping(machine.props, "rootBlockDevice")
    if root and not flag_or_none(root, "encrypted"):
        yield "has an unencrypted root volume"


@rule(
    AWS_AUTO_SCALING_GROUP,
    AWS_INSTANCE,
    severity=ALWAYS,
    why="What starts next would depend on when it starts: machines of one pool would differ, and"
    " `preview` could not say which.",
    fix="Name the template's version by number: its `latest_version` output.",
)
def moving_template_version(machine: Resource) -> Iterator[str]:
    """A launch template is named by version"""
    template = mapping(machine.props, "launchTemplate")
    if not template:
        return
    if "version" not in template:
        yield "names no version of its launch template"
    elif template["version"] in ("$Latest", "$Default"):
        yield f"follows version {template['version']} of its launch template"


@rule(
    AWS_AUTO_SCALING_GROUP,
    severity=ALWAYS,
    why="A group starts with `desiredCapacity` machines and is scaled from there: more than the"
    " minimum is bought before anything asks for it, less is refused by AWS.",
    fix="Leave `desiredCapacity` at `minSize`.",
)
def desired_capacity_is_not_minimum(group: Resource) -> Iterator[str]:
    """A group starts at its minimum"""
    desired = number_or_none(group.props, "desiredCapacity")
    least, most = number(group.props, "minSize"), number(group.props, "maxSize")
    if desired is not None and desired != least:
        yield f"starts with {desired:g} machines, its minimum is {least:g}"
    if least > most:
        yield f"has a minimum of {least:g} and a maximum of {most:g}"


@rule(
    AWS_LAUNCH_TEMPLATE,
    AWS_INSTANCE,
    severity=ALWAYS,
    why="User data is shown to everyone who may read the machine's attributes or its template, and"
    " to every process on it.",
    fix="Put the secret into the pool's or the host's own secret, which its role reads.",
)
def secret_in_user_data(machine: Resource) -> Iterator[str]:
    """User data holds no secret"""
    for key in ("userData", "userDataBase64"):
        written = text_or_none(machine.props, key) or ""
        if holds_secret(written) or holds_secret(_decoded(written)):
            yield f"has a secret in `{key}`"


@rule(
    AWS_LAUNCH_TEMPLATE,
    severity=ALWAYS,
    why="AWS refuses such a template only when it starts a machine: the group stays empty.",
    fix="A targeted reservation has no market type; a capacity block has the market type"
    " `capacity-block`, its reservation, and no placement group; spot names no reservation.",
)
def market_against_reservation(template: Resource) -> Iterator[str]:
    """Market, reservation and placement group agree"""
    market = text_or_none(template.props, "instanceMarketOptions.marketType")
    target = mapping(template.props, "capacityReservationSpecification.capacityReservationTarget")
    placement = text_or_none(template.props, "placement.groupName")
    if market == "spot" and target:
        yield "asks for spot machines in a reservation"
    if market == "capacity-block" and not target:
        yield "asks for a capacity block and names none"
    if market == "capacity-block" and placement:
        yield f"asks for a capacity block in the placement group {placement}"


@rule(
    AWS_LAUNCH_TEMPLATE,
    severity=ALWAYS,
    why="AWS refuses such interfaces only when it starts a machine; without an IP interface at card"
    " 0, device 0 the machine cannot be reached.",
    fix="Give each interface its own pair of card and device, and let the first one carry IP.",
)
def network_interfaces(template: Resource) -> Iterator[str]:
    """Network interfaces have places of their own"""
    interfaces = mappings(template.props, "networkInterfaces")
    places = collections.Counter(_place(interface) for interface in interfaces)
    for (card, device), count in places.items():
        if count > 1:
            yield f"has {count} interfaces at card {card:g}, device {device:g}"
    if not interfaces:
        return
    primary = [each for each in interfaces if _place(each) == (0, 0)]
    if not primary:
        yield "has no interface at card 0, device 0"
    elif text_or_none(primary[0], "interfaceType") == "efa-only":
        yield "has no IP at card 0, device 0"


def _place(interface: Mapping[str, Any]) -> tuple[float, float]:
    return number_or_none(interface, "networkCardIndex") or 0, number(interface, "deviceIndex")


def _says(machine: Resource, key: str) -> bool:
    """Whether this resource decides `key`: an instance may leave it to its template."""
    return machine.type == AWS_LAUNCH_TEMPLATE or bool(mapping(machine.props, key))


def _decoded(written: str) -> str:
    """The text that base64 stands for, or "" when it is not base64."""
    try:
        return base64.b64decode(written, validate=True).decode(errors="replace")
    except binascii.Error:
        return ""
