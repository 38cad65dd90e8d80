"""An offline preview: what a program registers when nothing exists yet, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

SECRET = "[secret]"  # noqa: S105  (stands in place of one)
UNKNOWN = "<unknown>"  # the only key of the object that stands in place of an unknown value


class Resource(TypedDict):
    type: str
    name: str
    parent: str  # the parent's name, "" for a child of the stack
    urn: str
    protect: bool
    inputs: Mapping[str, Any]


class OfflinePreview(TypedDict):
    schema_version: int
    resources: list[Resource]  # each after its parent
    documents: dict[str, str]  # path -> text of every rendered file
