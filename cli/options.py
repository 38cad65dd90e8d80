"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import WRONG_INPUT, CliError

Stack = Annotated[
    str, typer.Option("--stack", "-s", help="The environment: NAME of Pulumi.NAME.yaml.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

DEFAULT_STACK = "dev"

# For commands that pass unknown arguments to another program.
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}


def in_a_folder(picture: Path | None) -> Path | None:
    """For --png: refuses a path that cannot be written before the work starts."""
    if picture is not None and not picture.parent.is_dir():
        raise CliError(
            f"--png: {picture}: the folder {picture.parent} does not exist",
            fix="create the folder, or choose another one",
            exit_code=WRONG_INPUT,
        )
    if picture is not None and (picture.is_dir() or picture.suffix != ".png"):
        raise CliError(
            f"--png: {picture} is not the name of a PNG file",
            fix="use a file name that ends in .png",
            exit_code=WRONG_INPUT,
        )
    return picture
