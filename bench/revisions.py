"""Earlier revisions of this repository, which benchmarks compare with or begin from."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The last revision with two planners, and with version 1 of the documents that reach hosts.
BEFORE_ONE_PLAN = "ceea46c"


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
