"""Who can reach the platform."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from rules.facts import (
    Unevaluable,
    flag_or_none,
    items,
    mapping,
    mappings,
    text,
    text_or_none,
    texts,
)
from rules.jobs import job_of, tasks
from rules.rule import (
    ALWAYS,
    AWS_DEFAULT_SECURITY_GROUP,
    AWS_EGRESS_RULE,
    AWS_INGRESS_RULE,
    AWS_INSTANCE,
    AWS_LAUNCH_TEMPLATE,
    AWS_LOAD_BALANCER,
    AWS_SECURITY_GROUP,
    AWS_SUBNET,
    GATEWAY,
    NOMAD_JOB,
    SHARED,
    Resource,
    rule,
)

# A network of at most this many leading bits is taken for the whole internet: a pair of /1 is all
# of it, and no organisation has more than a /8 of IPv4 or a /16 of IPv6.
_EVERYWHERE_BITS = {4: 7, 6: 15}
_EVERY_INTERFACE = re.compile(r"(?<![\d.])0\.0\.0\.0(?![\d./])|\[::\]")


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
    AWS_LOAD_BALANCER,
    severity=ALWAYS,
    why="The gateway does not authenticate clients: on the internet it serves everyone in the"
    " listed networks.",
    fix="Remove `public` from `slipway:aws.load_balancer`, or waive this where something in front"
    " authenticates clients.",
)
def public_load_balancer(balancer: Resource) -> Iterator[str]:
    """The load balancer is in the environment's own network"""
    if not flag_or_none(balancer.props, "internal"):
        yield "is on the internet"


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


@rule(
    AWS_INGRESS_RULE,
    severity=ALWAYS,
    why="Agents, engines and proxies of the platform trust their network: everyone who reaches them"
    " can try their certificates, and the gateway would serve the whole internet.",
    fix="Name the networks or the security group that may connect. Networks of more than a /8"
    " (IPv6: a /16) count as everyone.",
)
def open_to_everywhere(ingress: Resource) -> Iterator[str]:
    """No security group lets everyone in"""
    for key in ("cidrIpv4", "cidrIpv6"):
        cidr = text_or_none(ingress.props, key)
        if cidr is None:
            continue
        try:
            network = ipaddress.ip_network(cidr, strict=False)
        except ValueError:
            raise Unevaluable(f"{key} is not a network") from None
        if network.prefixlen <= _EVERYWHERE_BITS[network.version]:
            yield f"lets {cidr} in"


@rule(
    AWS_INGRESS_RULE,
    AWS_EGRESS_RULE,
    severity=ALWAYS,
    why="Nobody dares to remove a rule whose purpose is not written down: groups only grow.",
    fix="Say in `description` who connects and why.",
)
def rule_without_reason(opening: Resource) -> Iterator[str]:
    """A rule of a security group says what it is for"""
    if not (text_or_none(opening.props, "description") or "").strip():
        yield "has no description"


@rule(
    AWS_SECURITY_GROUP,
    AWS_DEFAULT_SECURITY_GROUP,
    severity=ALWAYS,
    why="Rules inside a group and rules as resources of their own undo each other at every `up`;"
    " and what the default group allows applies to whatever is started without a group.",
    fix="Leave the group empty, and make each rule a resource with its reason.",
)
def rules_inside_group(group: Resource) -> Iterator[str]:
    """Security groups hold no rules themselves"""
    for key in ("ingress", "egress"):
        if items(group.props, key):
            yield f"holds rules in `{key}`"


@rule(
    AWS_INSTANCE,
    AWS_LAUNCH_TEMPLATE,
    AWS_SUBNET,
    severity=ALWAYS,
    why="One mistake in a security group opens a machine with a public address to the internet.",
    fix="Remove the public address; people come in through the EC2 Instance Connect endpoint, and"
    " machines go out through endpoints or the NAT gateway.",
)
def public_address(resource: Resource) -> Iterator[str]:
    """No machine gets a public address"""
    for key in ("associatePublicIpAddress", "mapPublicIpOnLaunch"):
        if flag_or_none(resource.props, key):
            yield f"has `{key}`"
    for index, interface in enumerate(mappings(resource.props, "networkInterfaces")):
        if flag_or_none(interface, "associatePublicIpAddress"):
            yield f"has a public address at networkInterfaces[{index}]"
