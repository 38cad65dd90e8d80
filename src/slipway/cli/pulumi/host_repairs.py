"""Edits an exported stack so that the next update admits hosts again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

JsonObject = dict[str, Any]

DELIVERY, ADMISSION, NODE = "delivery-", "admission-", "node-"  # of a host, by its name
CONSUL, NOMAD = "consul-", "nomad-"  # the agents of a server
# What empty clusters lack until they are restored: the permissions with which agents start, and the
# operator's access.
PERMISSIONS = ("operator-access", "consul-acl", "nomad-acl")


def unfinished_hosts(exported: str) -> set[str]:
    """Hosts that were admitted, but whose agents have not joined: their introduction expires."""
    admitted, joined = (_hosts_with(prefix, exported) for prefix in (ADMISSION, NODE))
    return admitted - joined


def admitted_hosts(exported: str) -> set[str]:
    return _hosts_with(ADMISSION, exported)


def with_admissions_again(exported: str, hosts: Collection[str]) -> str:
    """The exported stack, changed so that what is there of `hosts` is applied again, in its order:
    the recorded commands no longer match the program's. (A tainted command would undo itself at the
    end.)"""
    names = {prefix + host for host in hosts for prefix in (DELIVERY, ADMISSION, NODE)}
    return _edited(exported, lambda resource: _applied_again(resource, names))


def of_servers(exported: str, servers: Collection[str]) -> dict[str, str]:
    """What brings these servers up, empty: name -> URN."""
    names = {prefix + server for server in servers for prefix in (DELIVERY, CONSUL, NOMAD)}
    return {
        _name(each): str(each["urn"])
        for each in json.loads(exported)["deployment"].get("resources") or []
        if _name(each) in {*names, *PERMISSIONS} and each["type"].startswith("command:")
    }


def with_applied_again(exported: str, names: Collection[str]) -> str:
    """The exported stack, changed so that these resources are updated, as hosts are that are
    admitted again."""
    return _edited(exported, lambda resource: _applied_again(resource, names))


def removals(exported: str, servers: Collection[str]) -> dict[str, list[str]]:
    """The commands that remove the agents of servers with their data, in their order."""
    resources = json.loads(exported)["deployment"].get("resources") or []
    known = {_name(each): each for each in resources if each["type"].startswith("command:")}
    return {
        server: [
            str(known[agent + server]["inputs"]["delete"])
            for agent in (NOMAD, CONSUL)
            if agent + server in known
        ]
        for server in servers
    }


def _applied_again(resource: JsonObject, names: Collection[str]) -> JsonObject:
    if _name(resource) not in names:
        return resource
    changed = {key: {**resource.get(key, {}), "create": ""} for key in ("inputs", "outputs")}
    return {**resource, **changed}


def _edited(exported: str, edit: Callable[[JsonObject], JsonObject]) -> str:
    stack = json.loads(exported)
    resources = stack["deployment"].get("resources") or []
    stack["deployment"]["resources"] = [edit(each) for each in resources]
    return json.dumps(stack)


def _hosts_with(prefix: str, exported: str) -> set[str]:
    resources = json.loads(exported)["deployment"].get("resources") or []
    names = (_name(each) for each in resources if each["type"].startswith("command:"))
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"].rpartition("::")[2])
