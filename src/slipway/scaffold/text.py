"""YAML as people write it in this project: short mappings on one line, comments, no wrapped lines.

Every edit keeps the comments, the order and the spelling of what it does not change.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_NEVER_WRAPPED = 100_000  # characters of a line


def block(
    values: Mapping[str, Any], comments: Mapping[str, str] | None = None, *, indent: int = 0
) -> CommentedMap:
    """A mapping with one key on each line. `comments` go behind the values of their keys, which are
    plain; `indent` is that of the keys."""
    made = CommentedMap({_quoted(key): _quoted(value) for key, value in values.items()})
    for key, comment in (comments or {}).items():
        behind = indent + len(f"{key}: {values[key]}") + 2
        made.yaml_add_eol_comment(comment, key, column=behind)
    return made


def one_line(values: Mapping[str, Any]) -> CommentedMap:
    """A mapping on one line, with all that is in it."""
    made = CommentedMap({_quoted(key): _flow(value) for key, value in values.items()})
    made.fa.set_flow_style()
    return made


def document(values: CommentedMap, head: str) -> str:
    """The text of a file, below the lines of a comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + dumped(values)


def with_entry(
    text: str, path: tuple[str, ...], key: str, value: CommentedMap, *, above: str = ""
) -> str:
    """The text with one more entry at the end of the mapping at `path`, which is made if what is
    above it exists, with the comment `above` the entry."""
    root = loaded(text)
    holder = root
    for part in path[:-1]:
        holder = holder[part]
    if holder.get(path[-1]):
        _append(holder[path[-1]], key, value)
    else:  # `{}`, nothing at all, or left out
        _append(holder, path[-1], CommentedMap({_quoted(key): value}))
    mapping = holder[path[-1]]
    if above:
        indent = 2 * len(path)
        mapping.yaml_set_comment_before_after_key(key, before=above, indent=indent)
    return dumped(root)


def _append(mapping: CommentedMap, key: str, value: CommentedMap) -> None:
    """Puts an entry at the end, or a value in its place. ruamel keeps the comments below a mapping
    with the last key in it: they stay last."""
    holder, last = (mapping, key) if key in mapping else _last(mapping)
    below = None if last is None else holder.ca.items.pop(last, None)
    mapping[_quoted(key)] = value
    if below is None:
        return
    in_list = isinstance(holder, CommentedSeq)  # whose items have the comment behind them first
    beside, after = _split([None, None, below[0], None] if in_list else below)
    if beside is not None:
        holder.ca.items[last] = [beside[2], None] if in_list else beside
    if after is not None:
        inner, first = (mapping, key) if value.fa.flow_style() else (value, next(iter(value)))
        inner.ca.items[first] = after


def _last(values: CommentedMap | CommentedSeq) -> tuple[CommentedMap | CommentedSeq, Any]:
    """What has the last line of the values, and its key there; None if it is empty."""
    if isinstance(values, CommentedSeq):
        last: Any = len(values) - 1 if values else None
    else:
        last = next(reversed(values), None)
    inner = None if last is None else values[last]
    if isinstance(inner, CommentedMap | CommentedSeq) and inner and not inner.fa.flow_style():
        return _last(inner)
    return values, last


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
    """Text that YAML would read as something else is quoted, such as numbers, dates, and "on"."""
    if isinstance(value, str) and _reads_otherwise(value):
        return DoubleQuotedScalarString(value)
    return value


def _reads_otherwise(text: str) -> bool:
    """To YAML 1.1, as configurations are loaded, or to 1.2; as a key or as a value, on one line."""
    written, meant = f"{{{text}: [{text}]}}", {text: [text]}
    try:
        return bool(
            pyyaml.safe_load(written) != meant or YAML(typ="safe", pure=True).load(written) != meant
        )
    except (pyyaml.YAMLError, YAMLError):
        return True


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
