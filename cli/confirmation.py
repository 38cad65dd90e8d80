"""The question before a command destroys something."""

from __future__ import annotations

import sys

import typer

from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError


def must_agree(environment: Environment, question: str, without_asking: str) -> None:
    """Ends the program unless the user agrees. CliError with the command that does not ask, if
    nobody can answer."""
    if not sys.stdin.isatty():
        raise CliError(
            f'"{environment.name}" needs confirmation, but stdin is not a terminal',
            fix=without_asking,
            exit_code=WRONG_INPUT,
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(0)
