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
    default: bool = True,
) -> bool:
    """Whether the files (name -> text) are as they are to be. CliError where nobody can agree;
    `again` is the command, and `default` is what Enter means."""
    changed = _changed(checkout, files)
    proposals.show(changed)
    for each in advice:
        say(f"advice: {each.resource} {each.message} ({each.rule})", style="yellow")
    if not changed:
        say("nothing changes: the files are so already")
        return True
    if not proposals.agreed(changed, yes=yes, again=again, default=default):
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
