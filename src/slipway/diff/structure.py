"""What differs between two property values, path by path.

Documents inside of texts (a job in JSON, a template with a YAML file) are compared by their
structure, as the Pulumi CLI does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    return tuple(_compare((), before, after))


def _compare(keys: tuple[str, ...], before: Any, after: Any) -> Iterator[PathChange]:
    if before is after or before == after:
        return
    before, after = _decoded(before), _decoded(after)
    if before == after and type(before) is type(after):
        return  # written differently, and the same
    if len(keys) < _DEEPEST and isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}, key=str):
            yield from _compare((*keys, str(key)), before.get(key, ABSENT), after.get(key, ABSENT))
    elif len(keys) < _DEEPEST and isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(keys, before, after)
    else:
        yield PathChange(
            path=_path(keys),
            kind=_kind(before, after),
            before=_text(keys, before),
            after=_text(keys, after),
        )


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
    for name in sorted({*olds, *news}):
        yield from _compare((*keys, f"[{name}]"), olds.get(name, ABSENT), news.get(name, ABSENT))


def _by_identity(items: list[Any]) -> dict[str, Any] | None:
    """The elements by their names; None where they have none of their own."""
    for identity in _IDENTITIES:
        names = [item.get(identity) if isinstance(item, dict) else None for item in items]
        texts = [name for name in names if isinstance(name, str) and name]
        if len(texts) == len(items) == len(set(texts)):
            return dict(zip(texts, items, strict=True))
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
