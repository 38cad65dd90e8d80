"""How a route document says which replica gets a request, read from the schema of a revision.

Revisions differ: the first routes had no choice, Envoy took the replica with the fewest requests of
two. Later ones have an object `routing`, of which this module knows only that some property of it
has a list of choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

Schema = Mapping[str, Any]

AFFINITY, LEAST_REQUEST = "affinity", "least request"


class NoSuchPolicyError(Exception):
    """A revision does not have it; the message says so."""


def placed_by(policy: str, route: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The planned route with that policy and otherwise the defaults; affinity is the default where
    there is a choice. Raises NoSuchPolicyError."""
    if "routing" not in schema["properties"]:
        if policy == LEAST_REQUEST:
            return dict(route)  # the only one
        raise NoSuchPolicyError(f"routes of this revision know no {policy}")
    if policy == AFFINITY:
        return dict(route)
    for changed in _with_least_request(route, schema):
        if not list(jsonschema.Draft202012Validator(schema).iter_errors(changed)):
            return changed
    raise NoSuchPolicyError("no choice of `routing` in route.schema.json is called least request")


def _with_least_request(route: Mapping[str, Any], schema: Schema) -> Iterator[dict[str, Any]]:
    """The route's own settings with the choice changed first, then the choice alone."""
    planned = route.get("routing") or {}
    for name, value in _choices(schema["properties"]["routing"], schema):
        if str(value).lower().startswith("least"):
            yield {**route, "routing": {**planned, name: value}}
            yield {**route, "routing": {name: value}}


def _choices(part: Schema, schema: Schema) -> Iterator[tuple[str, object]]:
    """(property, allowed value) of every object that `part` allows."""
    for each in _variants(part, schema):
        for name, described in each.get("properties", {}).items():
            for variant in _variants(described, schema):
                values = [variant["const"]] if "const" in variant else variant.get("enum", ())
                yield from ((name, value) for value in values)


def _variants(part: Schema, schema: Schema) -> Iterator[Schema]:
    if "$ref" in part:
        *_, name = part["$ref"].split("/")
        yield from _variants(schema["$defs"][name], schema)
    for key in ("anyOf", "oneOf", "allOf"):
        for each in part.get(key, ()):
            yield from _variants(each, schema)
    yield part
