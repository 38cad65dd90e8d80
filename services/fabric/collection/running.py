"""Runs the tools of a check on this host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from fabric.verdicts import Output

# Tools of administrators, which services do not always have in their path.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WITHIN_S = 60.0


def output_of(
    tool: str, words: Sequence[str], device: str | None = None, *, within_s: float = WITHIN_S
) -> Output | None:
    """What the tool says on both of its outputs. None if this host does not have it."""
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), PATH)))
    try:
        done = subprocess.run(
            words,
            env={**os.environ, "PATH": path, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            check=False,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        return Output(tool, f"{said}it has not ended after {within_s:.0f} s\n", 124, device)
    return Output(tool, done.stdout.decode(errors="replace"), done.returncode, device)
