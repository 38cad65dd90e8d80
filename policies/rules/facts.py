"""Reading a resource's properties: plain dictionaries, some of whose values may be unknown.

A dotted path leads through nested mappings. A value that is unknown, missing or of the wrong type
raises `Unevaluable`, which counts as a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

_Value = TypeVar("_Value")


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()  # a value that the preview does not know


COMPONENT = "slipway:index:"


def of_resource(type_: str, props: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a rule reads: a component's `facts` property; otherwise all properties.

    In state of an older checkout a component's facts are its properties themselves.
    """
    found = props.get("facts", props) if type_.startswith(COMPONENT) else props
    return found if isinstance(found, Mapping) else {"schema_version": UNKNOWN}


class Unevaluable(Exception):  # noqa: N818  (an outcome, not an error)
    """A rule needs a value that is not known; the message names it, never the value."""


def number(props: Mapping[str, Any], path: str) -> float:
    return _required(number_or_none(props, path), path)


def number_or_none(props: Mapping[str, Any], path: str) -> float | None:
    value = _known(props, path)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise Unevaluable(f"{path} is not a number")


def text(props: Mapping[str, Any], path: str) -> str:
    return _required(text_or_none(props, path), path)


def text_or_none(props: Mapping[str, Any], path: str) -> str | None:
    value = _known(props, path)
    if value is None or isinstance(value, str):
        return value
    raise Unevaluable(f"{path} is not text")


def flag_or_none(props: Mapping[str, Any], path: str) -> bool | None:
    """Some AWS properties are booleans written as strings."""
    value = _known(props, path)
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if value is None or isinstance(value, bool):
        return value
    raise Unevaluable(f"{path} is neither true nor false")


def mapping(props: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Empty when it is missing."""
    value = _known(props, path)
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise Unevaluable(f"{path} is not a mapping")


def require(props: Mapping[str, Any], path: str) -> None:
    """Raises Unevaluable if a fact of the plan is missing; null is a value. A missing limit must
    not look like no limit."""
    value: Any = props
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise Unevaluable(f"{path} is missing")
        value = value[key]


def items(props: Mapping[str, Any], path: str) -> Sequence[Any]:
    """The elements of a list, empty when it is missing."""
    value = _known(props, path)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Unevaluable(f"{path} is not a list")
    if any(element is UNKNOWN for element in value):
        raise Unevaluable(f"{path} has an unknown element")
    return value


def mappings(props: Mapping[str, Any], path: str) -> Sequence[Mapping[str, Any]]:
    """The elements of a list of mappings, empty when it is missing."""
    found = items(props, path)
    if all(isinstance(element, Mapping) for element in found):
        return found
    raise Unevaluable(f"{path} has an element that is not a mapping")


def texts(props: Mapping[str, Any], path: str) -> Sequence[str]:
    """The elements of a list of strings, empty when it is missing."""
    found = items(props, path)
    if all(isinstance(element, str) for element in found):
        return found
    raise Unevaluable(f"{path} has an element that is not text")


def _known(props: Mapping[str, Any], path: str) -> Any:
    """The value at `path`, None when it or a mapping on the way is missing."""
    value: Any = props
    for key in path.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Unevaluable(f"{path} leads through something that is not a mapping")
        value = value.get(key)
        if value is UNKNOWN:
            raise Unevaluable(f"{path} is not known at preview")
    return value


def _required(value: _Value | None, path: str) -> _Value:
    if value is None:
        raise Unevaluable(f"{path} is missing")
    return value
