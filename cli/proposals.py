"""Files that a command wants to write: shown first, and written whole or not at all."""

from __future__ import annotations

import difflib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.text import Text

from cli.console import notes
from cli.errors import WRONG_INPUT, CliError

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
NEW_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`before` is the text that is there, None for a new file; `name` is relative to the
    checkout."""

    path: Path
    name: str
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        """Lines of a unified diff."""
        return list(
            difflib.unified_diff(
                (self.before or "").splitlines(),
                self.after.splitlines(),
                "/dev/null" if self.before is None else self.name,
                self.name,
                lineterm="",
            )
        )


def propose(checkout: Path, name: str, text: str) -> Proposal:
    path = checkout / name
    before = path.read_text(encoding="utf-8") if path.exists() else None
    return Proposal(path=path, name=name, before=before, after=text)


def show(proposals: Iterable[Proposal]) -> None:
    """The diffs, on standard error."""
    for each in proposals:
        for line in each.diff():
            notes.print(Text(line, style=_STYLES.get(line[:1], "")))


def agreed(proposals: Sequence[Proposal], *, yes: bool, again: str) -> bool:
    """Whether the user agrees, or has with --yes. CliError where nobody can answer; `again` is the
    command."""
    if yes:
        return True
    *first, last = (each.name for each in proposals)
    names = f"{', '.join(first)} and {last}" if first else last
    if not sys.stdin.isatty():
        raise CliError(
            f"{names} would be written as shown, but stdin is not a terminal",
            fix=f"{again} --yes writes without asking",
            exit_code=WRONG_INPUT,
        )
    return typer.confirm(f"Write {names}?", default=True, err=True)


def write(proposals: Sequence[Proposal]) -> None:
    """Writes every file beside its place first, so that an error leaves all as they were. CliError
    if one has changed since it was shown."""
    for each in proposals:
        if propose(each.path.parent, each.path.name, "").before != each.before:
            raise CliError(f"{each.name} has changed meanwhile", fix="run the command again")
    staged: list[tuple[Path, Path]] = []
    try:
        for each in proposals:
            staged.append((_staged(each), each.path))
    except BaseException:
        for partial, _ in staged:
            partial.unlink(missing_ok=True)
        raise
    for partial, path in staged:
        partial.replace(path)


def _staged(proposal: Proposal) -> Path:
    path = proposal.path
    path.parent.mkdir(exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE_MODE
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(proposal.after)
        os.fchmod(file.fileno(), mode)
    return Path(name)
