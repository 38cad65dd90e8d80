"""Which modules of a package Python files import, read from their text: parsing them all would take
a third of the time of `slipway plan`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_NAME = re.compile(r"\w+")


def imported_modules(folder: Path, package: str, files: Iterable[Path]) -> set[Path]:
    """The modules of `folder`/`package` that `files` import, and that those import. All paths are
    relative to `folder`."""
    found: set[Path] = set()
    unread = list(files)
    while unread:
        text = (folder / unread.pop()).read_text(encoding="utf-8")
        new = {path for path in _named_in(text, package) - found if (folder / path).is_file()}
        found |= new
        unread += new
    return found


@cache
def _named_in(text: str, package: str) -> frozenset[Path]:
    """The paths at which the modules that a file imports of the package may be. Services share
    modules, and a command may plan twice."""
    # As ruff formats them: one module a statement, its names in a line or in parentheses.
    statement = re.compile(
        rf"^[ \t]*(?:from|import) ({package}(?:\.\w+)*)(?: import (\([^)]*\)|[^\n]*))?$",
        re.MULTILINE,
    )
    named = (_named(*match.groups("")) for match in statement.finditer(text))
    return frozenset(itertools.chain.from_iterable(named))


def _named(module: str, names: str) -> Iterator[Path]:
    """The paths at which a statement's modules may be: an imported name is a module, or part of
    one."""
    path = Path(*module.split("."))
    yield from (parent / "__init__.py" for parent in (path, *path.parents[:-1]))
    yield path.with_suffix(".py")
    yield from ((path / name).with_suffix(".py") for name in _NAME.findall(names))
