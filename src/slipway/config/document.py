"""YAML files with the line of every key, so that an error can point to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import ConfigError, Problem

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where values came from: turns a key path into file, line and dotted key.

    `namespace` is put before the dotted key ("slipway:" in a stack file). Key paths start `below` a
    key of the file; `written` maps their first key to its name in the file. A problem at, above or
    below a key in `replaced` is reported at the origin given there.
    """

    source: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    namespace: str = ""
    below: KeyPath = ()
    written: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[KeyPath, Origin] = field(default_factory=dict)

    def problem(self, path: KeyPath, message: str, *, fix: str, value: Any = None) -> Problem:
        for key, origin in self.replaced.items():
            if path and _overlap(path, key):
                return origin.problem(path, message, fix=fix, value=value)
        dotted = ".".join(str(part) for part in path)
        return Problem(
            source=self.source,
            line=self._line(path),
            key=f"{self.namespace}{dotted}" if dotted else "",
            message=message,
            fix=fix,
            value=value,
        )

    def under(self, path: KeyPath, *, namespace: str, rename: Mapping[str, str]) -> Origin:
        """The origin of the part below `path`; `rename` maps its first keys to new names."""
        written = {new: old for old, new in rename.items()}
        return Origin(
            source=self.source,
            lines=self.lines,
            namespace=namespace,
            below=self._in_file(path),
            written=written,
        )

    def _line(self, path: KeyPath) -> int | None:
        path = self._in_file(path)
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def _in_file(self, path: KeyPath) -> KeyPath:
        first = tuple(self.written.get(str(key), key) for key in path[:1])
        return (*self.below, *first, *path[1:])


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Whether the two paths are equal or one is a prefix of the other."""
    return all(str(left) == str(right) for left, right in zip(one, other, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    values: Mapping[str, Any]
    origin: Origin


def read_document(path: Path, *, source: str) -> Document:
    """Read a YAML mapping. Raises ConfigError if the file is missing or broken or repeats a key."""
    return parse_document(read_text(path, source=source), source=source)


def read_text(path: Path, *, source: str) -> str:
    """Raises ConfigError if the file is missing or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _whole_file(source, f"cannot be read: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise _whole_file(source, "is not UTF-8 text", "save it as UTF-8") from None


def parse_document(text: str, *, source: str) -> Document:
    """A YAML mapping. Raises ConfigError if it is broken or repeats a key."""
    loader = _LOADER(text)
    walk = _Walk(source)
    try:
        root = loader.get_single_node()
        values = {} if root is None else loader.construct_document(root)
        if root is not None:
            walk.visit(root, ())
    except yaml.YAMLError as error:
        raise _broken_yaml(source, error) from None
    except RecursionError:
        reason = "is nested too deeply, or an anchor contains itself"
        raise _whole_file(source, reason, "write it without anchors") from None
    finally:
        loader.dispose()
    if not isinstance(values, dict):
        raise _whole_file(source, "must be a mapping of keys to values", "write `key: value` lines")
    if walk.problems:
        raise ConfigError(walk.problems)
    return Document(values=values, origin=Origin(source=source, lines=walk.lines))


class _Walk:
    """Collects the line of every key, and duplicate keys (YAML silently keeps the last one)."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []

    def visit(self, node: yaml.Node, path: KeyPath) -> None:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, (*path, index))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                self.problems.append(
                    Problem(
                        source=self.source,
                        line=line,
                        key=".".join(str(part) for part in (*path, key)),
                        message=f"is written twice, first on line {seen[key]}",
                        fix="keep one of the two",
                    )
                )
            seen.setdefault(key, line)
            self.lines[(*path, key)] = line
            self.visit(value_node, (*path, key))


def _broken_yaml(source: str, error: yaml.YAMLError) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    problem = Problem(
        source=source,
        line=None if mark is None else mark.line + 1,
        key="",
        message=f"is not valid YAML: {reason}",
        fix="check indentation, quotes and brackets at that line",
    )
    return ConfigError([problem])


def _whole_file(source: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(source=source, key="", message=message, fix=fix)])


def read_value(text: str) -> Any:
    """One YAML value, read like those in files. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - made from the safe one


def _or_text(construct: Callable[[Any, yaml.ScalarNode], Any]) -> Callable[..., Any]:
    """Text that looks like a number or a date but is not a valid one (2026-13-45) stays text:
    validation of its key reports it with its place."""

    def read(loader: Any, node: yaml.ScalarNode) -> Any:
        try:
            return construct(loader, node)
        except ValueError:
            return node.value

    return read


# A separate class, so that other YAML readers in this process are not affected.
_LOADER: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
_LOADER.add_constructor("tag:yaml.org,2002:int", _or_text(yaml.SafeLoader.construct_yaml_int))
_LOADER.add_constructor("tag:yaml.org,2002:float", _or_text(yaml.SafeLoader.construct_yaml_float))
_LOADER.add_constructor(
    "tag:yaml.org,2002:timestamp", _or_text(yaml.SafeLoader.construct_yaml_timestamp)
)
