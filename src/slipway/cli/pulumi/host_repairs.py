"""Edits an exported stack so that the next update admits hosts again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

JsonObject = dict[str, Any]

DELIVERY, ADMISSION, NODE = "delivery-", "admission-", "node-"  # of a host, by its name


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

    def marked(resource: JsonObject) -> JsonObject:
        if _name(resource) not in names:
            return resource
        changed = {key: {**resource.get(key, {}), "create": ""} for key in ("inputs", "outputs")}
        return {**resource, **changed}

    return _edited(exported, marked)


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
