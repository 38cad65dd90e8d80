"""Which modules of a package Python files import, read from their text: parsing them all would take
a third of the time of `slipway plan`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

_NAME = re.compile(r"\w+")


def imported_modules(folder: Path, package: str, files: Iterable[Path]) -> set[Path]:
    """The modules of `folder`/`package` that `files` import, and that those import. All paths are
    relative to `folder`."""
    modules = _modules(folder, package)
    found: set[str] = set()
    unread = list(files)
    while unread:
        text = (folder / unread.pop()).read_text(encoding="utf-8")
        new = _named_in(text, package) & modules.keys() - found
        found |= new
        unread += (modules[name] for name in new)
    return {modules[name] for name in found}


def _modules(folder: Path, package: str) -> Mapping[str, Path]:
    """The package's files by the names of their modules."""
    paths = (path.relative_to(folder) for path in folder.glob(f"{package}/**/*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def _named_in(text: str, package: str) -> frozenset[str]:
    """The names in a file's imports that may be modules of the package. Services share modules, and
    a command may plan twice."""
    # As ruff formats them: one module a statement, its names in a line or in parentheses.
    statement = re.compile(
        rf"^[ \t]*(?:from|import) ({package}(?:\.\w+)*)(?: import (\([^)]*\)|[^\n]*))?$",
        re.MULTILINE,
    )
    named = (_named(*match.groups("")) for match in statement.finditer(text))
    return frozenset(itertools.chain.from_iterable(named))


def _named(module: str, names: str) -> Iterator[str]:
    """The modules that a statement may import: a module, the packages around it, and each imported
    name, which is a module or part of one."""
    yield from itertools.accumulate(module.split("."), "{}.{}".format)
    yield from (f"{module}.{name}" for name in _NAME.findall(names))
