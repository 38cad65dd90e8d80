"""YAML as people write it in this project: short mappings on one line, comments, no wrapped lines.

Every edit keeps the comments, the order and the spelling of what it does not change.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_NEVER_WRAPPED = 100_000  # characters of a line


def block(
    values: Mapping[str, Any], comments: Mapping[str, str] | None = None, *, indent: int = 0
) -> CommentedMap:
    """A mapping with one key on each line. `comments` go behind the values of their keys, which are
    plain; `indent` is that of the keys."""
    made = CommentedMap({key: _quoted(value) for key, value in values.items()})
    for key, comment in (comments or {}).items():
        behind = indent + len(f"{key}: {values[key]}") + 2
        made.yaml_add_eol_comment(comment, key, column=behind)
    return made


def one_line(values: Mapping[str, Any]) -> CommentedMap:
    """A mapping on one line, with all that is in it."""
    made = CommentedMap({key: _flow(value) for key, value in values.items()})
    made.fa.set_flow_style()
    return made


def document(values: CommentedMap, head: str) -> str:
    """The text of a file, below the lines of a comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + dumped(values)


def with_entry(
    text: str, path: tuple[str, ...], key: str, value: CommentedMap, *, above: str = ""
) -> str:
    """The text with one more entry at the end of the mapping at `path`, which must exist, with the
    comment `above` it."""
    root = loaded(text)
    holder = root
    for part in path[:-1]:
        holder = holder[part]
    if not holder[path[-1]]:  # `{}`, or nothing at all
        holder[path[-1]] = CommentedMap()
    mapping = holder[path[-1]]
    _append(mapping, key, value)
    if above:
        indent = 2 * len(path)
        mapping.yaml_set_comment_before_after_key(key, before=above, indent=indent)
    return dumped(root)


def _append(mapping: CommentedMap, key: str, value: CommentedMap) -> None:
    """ruamel keeps the comments below a mapping with its last key: they stay last."""
    last = next(reversed(mapping), None)
    below = None if last is None else mapping.ca.items.pop(last, None)
    mapping[key] = value
    if below is not None and last is not None:
        beside, after = _split(below)
        if beside is not None:
            mapping.ca.items[last] = beside
        if after is not None:
            mapping.ca.items[key] = after


def _split(comments: list[Any]) -> tuple[list[Any] | None, list[Any] | None]:
    """(the comment behind the value, what follows on lines of its own)"""
    token = comments[2]
    if token is None:
        return comments, None
    first, newline, rest = token.value.partition("\n")
    if not rest.strip():
        return comments, None
    behind = first.strip()
    after = type(token)(f"{newline}{rest}", token.start_mark, None)
    if not behind:
        return None, [None, None, after, None]
    beside = type(token)(f"{first}\n", token.start_mark, None)
    return [comments[0], comments[1], beside, comments[3]], [None, None, after, None]


def _flow(value: Any) -> Any:
    if isinstance(value, Mapping):
        return one_line(value)
    if isinstance(value, list | tuple):
        made = CommentedSeq([_flow(each) for each in value])
        made.fa.set_flow_style()
        return made
    return _quoted(value)


def _quoted(value: Any) -> Any:
    """Text that YAML would read as a number or a date is quoted as people do."""
    if isinstance(value, str) and value[:1].isdigit() and _reads_otherwise(value):
        return DoubleQuotedScalarString(value)
    return value


def _reads_otherwise(text: str) -> bool:
    return not isinstance(YAML(typ="safe", pure=True).load(text), str)


def loaded(text: str) -> Any:
    """With its comments, for `dumped`."""
    return _yaml().load(text)


def dumped(values: CommentedMap) -> str:
    stream = io.StringIO()
    _yaml().dump(values, stream)
    return stream.getvalue()


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = _NEVER_WRAPPED
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
