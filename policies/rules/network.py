"""Who can reach the platform."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from rules.facts import (
    Unevaluable,
    mapping,
    mappings,
    text,
    text_or_none,
    texts,
)
from rules.jobs import job_of, tasks
from rules.rule import ALWAYS, GATEWAY, NOMAD_JOB, SHARED, Resource, rule

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
