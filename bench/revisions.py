"""Earlier revisions of this repository, which benchmarks compare with or begin from."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The last revision with two planners, and with version 1 of the documents that reach hosts.
BEFORE_ONE_PLAN = "ceea46c"
# The last one whose Envoys of several hosts change at once, with the address that they share.
BEFORE_TURNS = "b583d71"


def missing(revision: str) -> str:
    """Why nothing can begin from a revision; "" if it can."""
    command = ["git", "cat-file", "-e", f"{revision}^{{commit}}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    return f"{revision} is not in this clone's history (git fetch --unshallow): {done.stderr}"


def extract(revision: str, folder: Path) -> None:
    """The revision's files."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as files:
        files.extractall(folder, filter="data")


def described(revision: str) -> str:
    """Its short hash, date and subject."""
    return _git("log", "-1", "--format=%h (%cs, %s)", revision).decode().strip()


def _git(*arguments: str) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
