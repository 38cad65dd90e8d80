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
from slipway.config.document import read_text

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
    """Raises ConfigError if the file that is there is no text."""
    path = checkout / name
    before = read_text(path, source=name) if path.exists() else None
    return Proposal(path=path, name=name, before=before, after=text)


def show(proposals: Iterable[Proposal]) -> None:
    """The diffs, on standard error."""
    for each in proposals:
        for line in each.diff():
            notes.print(Text(line, style=_STYLES.get(line[:1], "")))


def agreed(proposals: Sequence[Proposal], *, yes: bool, again: str, default: bool = True) -> bool:
    """Whether the user agrees, or has with --yes; `default` is what Enter means. CliError where
    nobody can answer; `again` is the command."""
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
    return typer.confirm(f"Write {names}?", default=default, err=True)


def write(proposals: Sequence[Proposal]) -> None:
    """Writes every file beside its place first, and takes back those in place if one cannot be put
    there, so that an error leaves all as they were. CliError if one has changed since it was
    shown."""
    for each in proposals:
        if propose(each.path.parent, each.path.name, "").before != each.before:
            raise CliError(f"{each.name} has changed meanwhile", fix="run the command again")
    staged: list[tuple[Path, Proposal]] = []
    placed: list[Proposal] = []
    try:
        for each in proposals:
            staged.append((_staged(each.path, each.after), each))
        for partial, each in staged:
            partial.replace(each.path.resolve())
            placed.append(each)
    except BaseException:
        for partial, _ in staged:
            partial.unlink(missing_ok=True)
        for each in placed:
            _take_back(each)
        raise


def _take_back(proposal: Proposal) -> None:
    if proposal.before is None:
        proposal.path.unlink()
    else:
        _staged(proposal.path, proposal.before).replace(proposal.path.resolve())


def _staged(path: Path, text: str) -> Path:
    """A file with the text beside the one at `path`, or beside the one to which that links."""
    path = path.resolve()
    path.parent.mkdir(exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE_MODE & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def _umask() -> int:
    """It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
