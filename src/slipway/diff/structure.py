"""What differs between two property values, path by path.

Documents inside of texts (a job in JSON, a template with a YAML file) are compared by their
structure, as the Pulumi CLI does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import yaml

from slipway.diff.change import PathChange
from slipway.diff.secrets import MASK
from slipway.diff.shown import shown

ABSENT = object()
# What names an element of a list, so that a moved element is no change.
_IDENTITIES = ("Name", "name", "DestPath", "Label", "path", "ID", "key", "PortLabel")
_SHOWN_PATH = ("Job", "EmbeddedTmpl")  # steps of a path that say nothing
_DEEPEST = 40


def differences(before: Any, after: Any) -> tuple[PathChange, ...]:
    """Changed paths in a stable order. Values only where the allow-list has them."""
    return () if before == after else tuple(_compare((), before, after))


def _compare(keys: tuple[str, ...], before: Any, after: Any) -> Iterator[PathChange]:
    """Of two values that differ as they are written."""
    old, new = _decoded(before), _decoded(after)
    decoded = old is not before or new is not after
    if decoded and old == new and type(old) is type(new):
        return  # written differently, and the same
    if len(keys) < _DEEPEST and isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_members(keys, old, new, str)
    elif len(keys) < _DEEPEST and isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(keys, old, new)
    else:
        yield PathChange(
            path=_path(keys),
            kind=_kind(old, new),
            before=_text(keys, old),
            after=_text(keys, new),
        )


def _compare_members(
    keys: tuple[str, ...],
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    step: Callable[[Any], str],
) -> Iterator[PathChange]:
    """`step` is how a member's key is written in a path."""
    for key in sorted({*before, *after}, key=str):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old is not new and old != new:  # most are the same: not even asked
            yield from _compare((*keys, step(key)), old, new)


def _compare_lists(
    keys: tuple[str, ...], before: list[Any], after: list[Any]
) -> Iterator[PathChange]:
    olds, news = _by_identity(before), _by_identity(after)
    if olds is None or news is None:
        if _are_words([*before, *after]):  # a list of names: say which came and went
            yield PathChange(
                path=_path(keys), before=_words(keys, before), after=_words(keys, after)
            )
            return
        olds = {str(index): item for index, item in enumerate(before)}
        news = {str(index): item for index, item in enumerate(after)}
    yield from _compare_members(keys, olds, news, lambda name: f"[{name}]")


def _by_identity(items: list[Any]) -> dict[str, Any] | None:
    """The elements by their names; None where they have none of their own."""
    if not all(isinstance(item, dict) for item in items):
        return None
    for identity in _IDENTITIES:
        named = {name: item for item in items if isinstance(name := item.get(identity), str)}
        if len(named) == len(items) and "" not in named:
            return named
    return None


def _are_words(items: list[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _words(keys: tuple[str, ...], items: list[Any]) -> str | None:
    texts = [shown(keys, item) for item in items]
    known = [text for text in texts if text is not None]
    return None if len(known) < len(texts) else ", ".join(known)


def _decoded(value: Any) -> Any:
    """The document in a text, else the value itself."""
    if not isinstance(value, str) or MASK in value:
        return value
    text = value.strip()
    try:
        if text[:1] in ("{", "["):
            return json.loads(text)
        if ":" in text and "\n" in text:
            found = yaml.load(text, Loader=_YAML)  # noqa: S506  (a safe loader)
            return found if isinstance(found, dict | list) else value
    except (ValueError, RecursionError, yaml.YAMLError):
        pass
    return value


_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _kind(before: Any, after: Any) -> Literal["added", "removed", "changed"]:
    if before is ABSENT:
        return "added"
    return "removed" if after is ABSENT else "changed"


def _text(keys: tuple[str, ...], value: Any) -> str | None:
    if value is ABSENT:
        return None
    names = tuple(key for key in keys if not key.startswith("["))
    return shown(names, value)


def _path(keys: tuple[str, ...]) -> str:
    path = ""
    for key in keys:
        if key.startswith("["):
            path += key
        elif key not in _SHOWN_PATH:
            path += f".{key}" if path else key
    return path or "(all)"
