"""Reads resources from the JSON document of `slipway preview --offline --json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rules.facts import UNKNOWN, of_resource
from rules.rule import PLATFORM, Resource, Settings
from waivers import InputError

# How the offline preview marks a value that only a provider knows: an object with this key.
UNKNOWN_KEY = "<unknown>"
# How Pulumi marks one, by type (pulumi_policy.proxy).
_WIRE_UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


def read_resources(document: Mapping[str, Any], settings: Settings) -> Iterator[Resource]:
    """Raises InputError when the document has another form."""
    for entry in _entries(document):
        yield Resource(
            type=entry["type"],
            name=entry["name"],
            props=of_resource(entry["type"], with_unknowns(entry["inputs"])),
            protect=entry.get("protect"),
            settings=settings,
        )


def platform_fact(document: Mapping[str, Any], name: str) -> str:
    """A fact of the platform component ("environment", "target"), or "" if it has none."""
    for entry in _entries(document):
        if entry["type"] == PLATFORM:
            return str(of_resource(PLATFORM, entry["inputs"]).get(name, ""))
    return ""


def with_unknowns(value: Any) -> Any:
    """The value, with UNKNOWN wherever the document marks one."""
    if isinstance(value, Mapping):
        if UNKNOWN_KEY in value:
            return UNKNOWN
        return {key: with_unknowns(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_unknowns(each) for each in value]
    return UNKNOWN if isinstance(value, str) and value in _WIRE_UNKNOWNS else value


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = document.get("resources")
    if not isinstance(entries, list):
        raise InputError(
            "the document has no list `resources`; `slipway preview --offline --json` prints one"
        )
    for index, entry in enumerate(entries):
        if not (isinstance(entry, Mapping) and isinstance(entry.get("inputs"), Mapping)):
            raise InputError(f"resources[{index}]: is not a resource with `inputs`")
        if not all(isinstance(entry.get(key), str) for key in ("type", "name")):
            raise InputError(f"resources[{index}]: needs the strings type and name")
    return entries
