"""pydantic's errors in Slipway's form: what is allowed, and how to fix it."""

from __future__ import annotations

import datetime
import re
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from .base import CUSTOM_ERROR, Tagged
from .document import KeyPath, Origin
from .errors import ConfigError, Problem, suggestion

T = TypeVar("T", bound=BaseModel)

_TABLE = "a mapping of keys to values"
_WANTED_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "date_type": "a date such as 2026-11-21",
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "mapping_type": _TABLE,
    "dict_type": _TABLE,
    "tuple_type": "a list",
}

# pydantic's error type -> (what is allowed, the fix), filled from the error's context.
_WORDS = {
    CUSTOM_ERROR: ("{message}", "{fix}"),
    "missing": ("is required", "add `{key}:`"),
    "literal_error": ("must be {expected}", "use an allowed value"),
    "union_tag_invalid": ("kind must be one of {expected_tags}", "correct `kind`"),
    "union_tag_not_found": ("has no `kind`", "add `kind:`"),
    "greater_than_equal": ("must be at least {ge}", "use {ge} or more"),
    "less_than_equal": ("must be at most {le}", "use {le} or less"),
    "greater_than": ("must be more than {gt}", "use more than {gt}"),
    "string_too_short": ("must not be empty", "give a value"),
    "too_short": ("must not be empty", "add at least one entry"),
    "too_long": ("must have at most {max_length} entries", "remove some"),
    **{kind: (f"must be {wanted}", f"give {wanted}") for kind, wanted in _WANTED_TYPES.items()},
}


_QUOTED = re.compile("'([^']*)'")

# How YAML reads words that were meant as text.
_READ_AS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    datetime.date: "a date",
    datetime.datetime: "a date",
}


def validated(model: type[T], values: Mapping[str, Any], origin: Origin) -> T:
    """`values` as a `model`. Raises ConfigError with every problem, located by `origin`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_problems(model, error.errors(include_url=False), origin)) from None


def _problems(
    model: type[BaseModel], errors: list[ErrorDetails], origin: Origin
) -> Iterator[Problem]:
    for error in errors:
        path, owner, wanted = _place(model, error["loc"])
        message, fix = words(error, path, owner)
        fix = _better_fix(error, wanted) or fix
        missing = error["type"] == "missing"
        value = None if missing or isinstance(error["input"], BaseModel) else error["input"]
        yield origin.problem(path, message, value=value, fix=fix)


def words(error: ErrorDetails, path: KeyPath, owner: type[BaseModel] | None) -> tuple[str, str]:
    """(what is wrong and what is allowed, how to fix it) for one pydantic error."""
    key = str(path[-1]) if path else ""
    if error["type"] == "extra_forbidden":
        return "unknown key", suggestion(key, owner.model_fields if owner else ())
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        expected = error["ctx"]["expected"]
        return f"must be {expected}", suggestion(error["input"], _QUOTED.findall(expected))
    message, fix = _WORDS.get(error["type"], ("{msg}", "correct the value"))
    limits = {name: _plainly(limit) for name, limit in error.get("ctx", {}).items()}
    context = {"key": key, "msg": error["msg"].lower(), **limits}
    return message.format_map(context), fix.format_map(context)


def _better_fix(error: ErrorDetails, wanted: Any) -> str:
    """A fix that uses more than the error's type; "" if there is none."""
    if error["type"] == "string_type" and type(error["input"]) in _READ_AS:
        return f"put it in quotes: YAML reads it as {_READ_AS[type(error['input'])]}"
    example = _example(wanted) if _WANTED_TYPES.get(error["type"]) == _TABLE else ""
    return f"give {_TABLE}, e.g. {example}" if example else ""


def _place(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[KeyPath, type[BaseModel] | None, Any]:
    """The key path as the user wrote it, the model its last key belongs to, and the key's
    annotation.

    pydantic's location also names union members ("engine", "vllm", "dtype") and marks bad
    mapping keys with "[key]": neither occurs in the file.
    """
    path: list[str | int] = []
    owner: type[BaseModel] | None = model
    annotation: Any = model
    for part in location:
        if part == "[key]":
            continue
        members = _union_members(annotation)
        if part in members:
            annotation = members[str(part)]
            continue
        owner = annotation if _is_model(annotation) else None
        path.append(part)
        annotation = _below(annotation, part)
    return tuple(path), owner, annotation


def _below(annotation: Any, key: str | int) -> Any:
    """The annotation of the value of `key`, None if unknown."""
    if _is_model(annotation):
        field = annotation.model_fields.get(str(key))
        return None if field is None else _plain(field.annotation)
    arguments = [item for item in get_args(annotation) if item is not Ellipsis]  # tuple[X, ...]
    return _plain(arguments[-1]) if get_origin(annotation) and arguments else None


def _example(annotation: Any) -> str:
    """An example mapping for `annotation`; "" if there is none."""
    members = [annotation, *_union_members(annotation).values()]
    examples = [str(member.EXAMPLE) for member in members if _is_model(member)]
    return next(filter(None, examples), "")


def _plainly(limit: Any) -> Any:
    """Whole numbers without a fraction: 1000000, not 1000000.0 or 1e+06."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _plain(annotation: Any) -> Any:
    """The annotation without Annotated and Optional."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        members = [item for item in get_args(annotation) if item is not type(None)]
        return _plain(members[0]) if len(members) == 1 else annotation
    return annotation


def _union_members(annotation: Any) -> dict[str, Any]:
    """Members of a discriminated union by tag: the class's TAG, or that of another annotation."""
    if get_origin(annotation) not in {Union, types.UnionType}:
        return {}
    members: dict[str, Any] = {}
    for annotated in get_args(annotation):
        member = _plain(annotated)
        if isinstance(member, type) and issubclass(member, Tagged):
            members[member.TAG] = member
        elif get_origin(annotated) is Annotated:
            tags = (each.tag for each in get_args(annotated)[1:] if isinstance(each, Tag))
            members |= dict.fromkeys(tags, member)
    return members


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
