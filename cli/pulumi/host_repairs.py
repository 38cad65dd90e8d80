"""Edits an exported stack so that the next update sets hosts up again."""

from __future__ import annotations

import re
from collections.abc import Collection

from cli.pulumi.exported import JsonObject, edited, is_command, name_of, resources_of

FOR_PYTHON = re.compile(r" artifacts, for Python (\d+\.\d+)$")
DELIVERY, ADMISSION, NODE = "delivery-", "admission-", "node-"  # of a host, by its name
CONSUL, NOMAD = "consul-", "nomad-"  # the agents of a server
MACHINE = "host-"  # where `up` makes them (components/aws_hosts/component.py)
# What empty clusters lack until they are restored: the permissions with which agents start, and the
# operator's access.
PERMISSIONS = ("operator-access", "consul-acl", "nomad-acl")


def unfinished_hosts(exported: str) -> set[str]:
    """Hosts that were admitted, but whose agents have not joined: their introduction expires."""
    admitted, joined = (_hosts_with(prefix, exported) for prefix in (ADMISSION, NODE))
    return admitted - joined


def admitted_hosts(exported: str) -> set[str]:
    return _hosts_with(ADMISSION, exported)


def delivered_hosts(exported: str) -> set[str]:
    return _hosts_with(DELIVERY, exported)


def delivered_pythons(exported: str, unless_said: str) -> dict[str, str]:
    """Host -> the version of the Python for which it got what it runs, as the delivery says at its
    end (services/operator/delivery/main.py); earlier ones did not say it."""
    return {
        name_of(each).removeprefix(DELIVERY): _python_of(each) or unless_said
        for each in resources_of(exported)
        if is_command(each) and name_of(each).startswith(DELIVERY)
    }


def with_deliveries_again(exported: str, hosts: Collection[str]) -> str:
    """The exported stack, changed so that what these hosts run is brought there again."""
    return with_applied_again(exported, {DELIVERY + host for host in hosts})


def with_admissions_again(exported: str, hosts: Collection[str]) -> str:
    """The exported stack, changed so that the recorded commands of `hosts` run again, in their
    order."""
    names = {prefix + host for host in hosts for prefix in (DELIVERY, ADMISSION, NODE)}
    return with_applied_again(exported, names)


def of_servers(exported: str, servers: Collection[str]) -> dict[str, str]:
    """The commands that bring these servers up without data: name -> URN."""
    names = {prefix + server for server in servers for prefix in (DELIVERY, CONSUL, NOMAD)}
    return {
        name_of(each): str(each["urn"])
        for each in resources_of(exported)
        if name_of(each) in {*names, *PERMISSIONS} and is_command(each)
    }


def machines(exported: str, hosts: Collection[str]) -> list[str]:
    """The URNs of these hosts' machines; none where somebody else makes them."""
    names = {MACHINE + host for host in hosts}
    return [str(each["urn"]) for each in resources_of(exported) if name_of(each) in names]


def with_applied_again(exported: str, names: Collection[str]) -> str:
    """The exported stack, changed so that these commands run again: what is recorded of them no
    longer matches the program's. (A tainted command would undo itself at the end.)"""
    return edited(exported, lambda resource: _applied_again(resource, names))


def removals(exported: str, servers: Collection[str]) -> dict[str, list[str]]:
    """The commands that remove the agents of servers with their data, in their order."""
    known = {name_of(each): each for each in resources_of(exported) if is_command(each)}
    return {
        server: [
            str(known[agent + server]["inputs"]["delete"])
            for agent in (NOMAD, CONSUL)
            if agent + server in known
        ]
        for server in servers
    }


def _applied_again(resource: JsonObject, names: Collection[str]) -> JsonObject:
    if name_of(resource) not in names:
        return resource
    changed = {key: {**resource.get(key, {}), "create": ""} for key in ("inputs", "outputs")}
    return {**resource, **changed}


def _python_of(delivery: JsonObject) -> str:
    said = FOR_PYTHON.search(str(delivery.get("outputs", {}).get("stdout", "")))
    return said[1] if said else ""


def _hosts_with(prefix: str, exported: str) -> set[str]:
    names = (name_of(each) for each in resources_of(exported) if is_command(each))
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
