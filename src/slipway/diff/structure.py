"""What differs between two property values, path by path.

Documents inside text values (a job in JSON, a template with a YAML file) are compared by structure,
as in the Pulumi CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import yaml

from slipway.diff.change import PathChange
from slipway.diff.json_text import read_json
from slipway.diff.reasons import BRIDGE_KEYS
from slipway.diff.secrets import MASK
from slipway.diff.shown import shown

ABSENT = object()
# Keys that identify a list element, so that a moved element is not a change.
_IDENTITIES = ("Name", "name", "DestPath", "Label", "path", "ID", "key", "PortLabel")
_OMITTED = ("Job", "EmbeddedTmpl")  # uninformative steps of a path
_DEEPEST = 40


def differences(before: Any, after: Any) -> tuple[PathChange, ...]:
    """Changed paths in a stable order, with values only where the allow-list has them."""
    found = list[PathChange]()
    if before != after:
        _compare((), before, after, found)
    return tuple(found)


def _compare(keys: tuple[str, ...], before: Any, after: Any, found: list[PathChange]) -> None:
    """Compares two values whose texts differ."""
    old, new = _decoded(before), _decoded(after)
    decoded = old is not before or new is not after
    if decoded and old == new and type(old) is type(new):
        return  # written differently, but equal
    if len(keys) < _DEEPEST and isinstance(old, dict) and isinstance(new, dict):
        _compare_members(keys, old, new, str, found)
    elif len(keys) < _DEEPEST and isinstance(old, list) and isinstance(new, list):
        _compare_lists(keys, old, new, found)
    else:
        names = tuple([key for key in keys if key[:1] != "["])
        found.append(
            PathChange(
                path=_path(keys),
                kind=_kind(old, new),
                before=None if old is ABSENT else shown(names, old),
                after=None if new is ABSENT else shown(names, new),
            )
        )


def _compare_members(
    keys: tuple[str, ...],
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    step: Callable[[Any], str],
    found: list[PathChange],
) -> None:
    """`step` is how a member's key is written in a path."""
    # Most are equal, so only the others are sorted.
    changed = [key for key, old in before.items() if old != after.get(key, ABSENT)]
    changed += [key for key in after if key not in before]
    for key in sorted({*changed} - BRIDGE_KEYS, key=str):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        _compare((*keys, step(key)), old, new, found)


def _compare_lists(
    keys: tuple[str, ...], before: list[Any], after: list[Any], found: list[PathChange]
) -> None:
    olds, news = _by_identity(before), _by_identity(after)
    if olds is None or news is None:
        if _are_words([*before, *after]):  # a list of names: show those added and removed
            words = _words(keys, before), _words(keys, after)
            found.append(PathChange(path=_path(keys), before=words[0], after=words[1]))
            return
        olds = {str(index): item for index, item in enumerate(before)}
        news = {str(index): item for index, item in enumerate(after)}
    _compare_members(keys, olds, news, "[{}]".format, found)


def _by_identity(items: list[Any]) -> dict[str, Any] | None:
    """The elements by name; None if they have no names."""
    if not all(isinstance(item, dict) for item in items):
        return None
    for identity in _IDENTITIES:
        if not all(identity in item for item in items):
            continue
        named = {name: item for item in items if isinstance(name := item[identity], str)}
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
    """The document inside a text value, else the value itself."""
    if not isinstance(value, str) or MASK in value:
        return value
    text = value.strip()
    try:
        if text[:1] in ("{", "["):
            return read_json(text)
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


def _path(keys: tuple[str, ...]) -> str:
    path = ""
    for key in keys:
        if key.startswith("["):
            path += key
        elif key not in _OMITTED:
            path += f".{key}" if path else key
    return path or "(all)"
