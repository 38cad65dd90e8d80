"""The command line of programs with a single action."""

from __future__ import annotations

import sys

from program.errors import InputError


def expect_apply(script: str) -> None:
    if sys.argv[1:] != ["apply"]:
        raise InputError(f"usage: {script} apply")
