"""Shows files that are to be written, with the advice of the policies, and writes them on yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli import proposals
from cli.console import say, write_json
from slipway.diff.policies import Finding


def settle(
    checkout: Path,
    files: Mapping[str, str],
    advice: Sequence[Finding],
    *,
    again: str,
    yes: bool,
) -> bool:
    """Whether the files (name -> text) were written. CliError where nobody can agree; `again` is
    the command."""
    changed = _changed(checkout, files)
    proposals.show(changed)
    for each in advice:
        say(f"advice: {each.resource} {each.message} ({each.rule})", style="yellow")
    if not proposals.agreed(changed, yes=yes, again=again):
        say("nothing was written")
        return False
    proposals.write(changed)
    for file in changed:
        say(f"wrote {file.name}")
    return True


def settle_for_scripts(
    checkout: Path, files: Mapping[str, str], about: Mapping[str, Any], *, yes: bool
) -> None:
    """Prints what is `about` the files, and which they are; writes them with --yes only."""
    changed = _changed(checkout, files)
    if yes:
        proposals.write(changed)
    write_json({**about, "files": [each.name for each in changed], "written": yes})


def _changed(checkout: Path, files: Mapping[str, str]) -> Sequence[proposals.Proposal]:
    proposed = (proposals.propose(checkout, *each) for each in files.items())
    return [each for each in proposed if each.changes]
