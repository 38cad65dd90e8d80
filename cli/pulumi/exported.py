"""The resources of an exported stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]


def resources_of(exported: str) -> list[JsonObject]:
    found: list[JsonObject] = json.loads(exported)["deployment"].get("resources") or []
    return found


def edited(exported: str, edit: Callable[[JsonObject], JsonObject]) -> str:
    """The exported stack with `edit` applied to every resource; the same text if none changes."""
    stack = json.loads(exported)
    before = stack["deployment"].get("resources") or []
    stack["deployment"]["resources"] = [edit(each) for each in before]
    return exported if stack["deployment"]["resources"] == before else json.dumps(stack)


def name_of(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"].rpartition("::")[2])


def is_command(resource: Mapping[str, Any]) -> bool:
    """Whether the resource runs a program, here or over SSH."""
    return str(resource["type"]).startswith("command:")
