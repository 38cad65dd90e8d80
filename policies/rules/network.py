"""Who can reach the platform."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rules.facts import (
    Unevaluable,
    flag_or_none,
    mapping,
    mappings,
    text,
    text_or_none,
    texts,
)
from rules.jobs import job_of, tasks
from rules.rule import ALWAYS, GATEWAY, NOMAD_JOB, SHARED, Resource, rule

SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
SECURITY_GROUP_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
LOAD_BALANCER = "aws:lb/loadBalancer:LoadBalancer"
LISTENER = "aws:lb/listener:Listener"
INSTANCE = "aws:ec2/instance:Instance"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"

EVERYONE = frozenset({"0.0.0.0/0", "::/0"})
_EVERY_INTERFACE = re.compile(r"(?<![\d.])0\.0\.0\.0(?![\d./])|\[::\]")


@rule(
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    INGRESS_RULE,
    severity=ALWAYS,
    why="Engines, Consul and Nomad trust their network: exposed to the internet, they run anyone's"
    " code and prompts.",
    fix="Name the networks of your users, or put a private load balancer or VPN in front.",
)
def public_ingress(group: Resource) -> Iterator[str]:
    """No security group admits the whole internet"""
    for entry in _ingress(group):
        for network in EVERYONE.intersection(_sources(entry)):
            yield f"admits {network}"


def _ingress(group: Resource) -> Iterator[Mapping[str, Any]]:
    if group.type == SECURITY_GROUP:
        yield from mappings(group.props, "ingress")
    elif group.type == INGRESS_RULE or text(group.props, "type") == "ingress":
        yield group.props


def _sources(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("cidrBlocks", "ipv6CidrBlocks"):
        yield from texts(entry, key)
    for key in ("cidrIpv4", "cidrIpv6"):
        if network := text_or_none(entry, key):
            yield network


@rule(
    LOAD_BALANCER,
    severity=SHARED,
    why="A load balancer is public by default, and every request costs GPU time.",
    fix="Set `internal` to true; if the platform serves the public, add a waiver.",
)
def public_load_balancer(balancer: Resource) -> Iterator[str]:
    """A load balancer is internal"""
    if flag_or_none(balancer.props, "internal") is not True:
        yield "is open to the internet"


@rule(
    GATEWAY,
    severity=ALWAYS,
    why="The gateway does not authenticate clients: on a public address it serves everyone.",
    fix="Give it a private address and put authentication in front.",
)
def public_gateway(gateway: Resource) -> Iterator[str]:
    """The gateway listens on a private address"""
    address = text(gateway.props, "address")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise Unevaluable("address is not an IP address") from None
    if found.is_unspecified or not found.is_private:
        yield f"listens on {address}"


@rule(
    LISTENER,
    severity=SHARED,
    why="Prompts and answers can be read by everyone on the way.",
    fix="Use HTTPS or TLS with a certificate; HTTP may only redirect there.",
)
def plain_listener(listener: Resource) -> Iterator[str]:
    """A load balancer's listener uses TLS"""
    protocol = text_or_none(listener.props, "protocol") or "HTTP"
    actions = mappings(listener.props, "defaultActions")
    redirects = bool(actions) and all(
        text_or_none(action, "type") == "redirect"
        and text_or_none(action, "redirect.protocol") == "HTTPS"
        for action in actions
    )
    if protocol.upper() in {"HTTP", "TCP", "UDP"} and not redirects:
        yield f"listens with plain {protocol}"


@rule(
    INSTANCE,
    LAUNCH_TEMPLATE,
    severity=SHARED,
    why="A node runs other people's prompts through large native libraries; nothing outside needs"
    " to reach it.",
    fix="Leave out `associatePublicIpAddress`, and reach nodes through a bastion or Session"
    " Manager.",
)
def public_node(node: Resource) -> Iterator[str]:
    """Nodes have no public address"""
    entries = [node.props, *mappings(node.props, "networkInterfaces")]
    if any(flag_or_none(entry, "associatePublicIpAddress") for entry in entries):
        yield "asks for a public address"


@rule(
    NOMAD_JOB,
    severity=SHARED,
    why="A process that listens on every interface is reachable past the gateway and its limits.",
    fix="Bind it to `${meta.address}`, the node's own address in the platform's network.",
)
def listens_everywhere(job: Resource) -> Iterator[str]:
    """A task binds to its node's own address"""
    for task in tasks(job_of(job.props)):
        places = {"its arguments": texts(task.document, "Config.args")}
        environment = mapping(task.document, "Env")
        places["its environment"] = [text(environment, name) for name in environment]
        for file in mappings(task.document, "Templates"):
            name = text_or_none(file, "DestPath") or "a template"
            places[name] = [text_or_none(file, "EmbeddedTmpl") or ""]
        for place, values in places.items():
            if any(_EVERY_INTERFACE.search(value) for value in values):
                yield f"task {task} listens on every interface ({place})"
