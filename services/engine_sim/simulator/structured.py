"""Values that are valid under a JSON schema: what a simulated model writes where a form is asked.

Always the same value for a schema: the first of an enum, the shortest list, the smallest number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

_DEEPEST = 32  # objects within objects; a schema that demands more has no end
_STRINGS_BY_FORMAT = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_UNSUPPORTED = (
    "pattern",
    "not",
    "if",
    "patternProperties",
    "contains",
    "minProperties",
    "uniqueItems",
)
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_Schema = Mapping[str, Any]


class SchemaError(ValueError):
    """No value can be made for a schema; the message says why."""


def value_for(schema: object) -> Any:
    """A value that is valid under the schema.

    Raises:
        SchemaError: it is no schema, it refers to nothing, it has no end, no number is within its
            limits, or it uses a keyword of `_UNSUPPORTED`.
    """
    return _value(schema, schema, _DEEPEST)


def _value(schema: object, root: object, depth: int) -> Any:
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise SchemaError("a schema must be an object")
    if depth == 0:
        raise SchemaError("the schema has no end")
    schema = _merged(schema, root, depth)
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            raise SchemaError(f"{keyword!r} is not supported by the simulated engine")
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    return _of_type(_type(schema), schema, root, depth - 1)


def _merged(schema: _Schema, root: object, depth: int) -> _Schema:
    """The schema with what it refers to, the first of its alternatives and all of `allOf`."""
    for keyword, check in _CHECKS.items():
        if keyword in schema and not check(schema[keyword]):
            raise SchemaError(f"{keyword!r} must not be {schema[keyword]!r}")
    parts = [*schema.get("allOf", ())]
    parts += [schema[name][0] for name in ("anyOf", "oneOf") if schema.get(name)]
    if "$ref" in schema:
        parts.append(_referred(schema["$ref"], root))
    merged = {key: schema[key] for key in schema if key not in ("allOf", "anyOf", "oneOf", "$ref")}
    if parts and depth <= 1:
        raise SchemaError("the schema has no end")
    for part in parts:
        if not isinstance(part, Mapping):
            raise SchemaError("a schema must be an object")
        merged = _joined(merged, _merged(part, root, depth - 1))
    return merged


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -inf < value < inf


# What the values of keywords must be; other keywords may have any.
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "enum", "prefixItems"), _is_list),
    **dict.fromkeys(("minItems", "minLength", "maxLength"), _is_count),
    **dict.fromkeys(_LIMITS, _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "required": _are_names,
    "properties": lambda value: isinstance(value, Mapping),
    "format": lambda value: isinstance(value, str),
}


def _joined(one: _Schema, other: _Schema) -> dict[str, Any]:
    """Both must hold: their properties and what they require are put together."""
    properties = {**one.get("properties", {}), **other.get("properties", {})}
    required = [*one.get("required", ()), *other.get("required", ())]
    return {
        **one,
        **other,
        **({"properties": properties} if properties else {}),
        **({"required": required} if required else {}),
    }


def _referred(reference: object, root: object) -> Any:
    found = root
    try:
        for key in str(reference).removeprefix("#").split("/")[1:]:
            found = found[key.replace("~1", "/").replace("~0", "~")]  # type: ignore[index]
    except (KeyError, TypeError, IndexError) as error:
        raise SchemaError(f"$ref {reference!r} leads nowhere in the schema") from error
    return found


def _type(schema: _Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind is None:
        kind = "array" if "items" in schema else "object"
    return str(kind)


def _of_type(kind: str, schema: _Schema, root: object, depth: int) -> Any:
    if kind == "object":
        required = dict.fromkeys(schema.get("required", ()))
        known = schema.get("properties", {})
        return {name: _value(known.get(name, True), root, depth) for name in required}
    if kind == "array":
        first = [_value(each, root, depth) for each in schema.get("prefixItems", ())]
        missing = max(0, schema.get("minItems", 0) - len(first))
        return [*first, *(_value(schema.get("items", True), root, depth) for _ in range(missing))]
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        return _number(kind, schema)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    raise SchemaError(f"type {kind!r} is not supported by the simulated engine")


def _string(schema: _Schema) -> str:
    text = _STRINGS_BY_FORMAT.get(schema.get("format", ""), "simulated")
    text = text[: schema.get("maxLength", len(text))]
    return text.ljust(schema.get("minLength", 0), "x")


def _number(kind: str, schema: _Schema) -> float:
    """The smallest multiple that is allowed, else the largest, else 0. Limits that have no multiple
    between them: one of them, or their mean."""
    limits = [schema[name] for name in _LIMITS if name in schema]
    try:
        numbers = [_multiple(schema)]
        if kind == "number" and "multipleOf" not in schema and limits:
            numbers += [*limits, sum(limits) / len(limits)]
    except OverflowError as error:
        raise SchemaError(f"a number within {limits} is too large") from error
    for number in numbers:
        if _is_allowed(number, schema) and (kind == "number" or number % 1 == 0):
            return number if kind == "number" else int(number)
    raise SchemaError(f"no {kind} is within {limits}")


def _multiple(schema: _Schema) -> float:
    step: float = schema.get("multipleOf", 1)
    lowest, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    highest, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    number: float = 0
    if lowest is not None or above is not None:
        limit = max(each for each in (lowest, above) if each is not None)
        number = -(-limit // step) * step
        if number == above:
            number += step
    elif highest is not None or below is not None:
        limit = min(0, *(each for each in (highest, below) if each is not None))
        number = limit // step * step
        if number == below:
            number -= step
    return number


def _is_allowed(number: float, schema: _Schema) -> bool:
    lowest, above = schema.get("minimum", -inf), schema.get("exclusiveMinimum", -inf)
    highest, below = schema.get("maximum", inf), schema.get("exclusiveMaximum", inf)
    return bool(lowest <= number <= highest and above < number < below)
