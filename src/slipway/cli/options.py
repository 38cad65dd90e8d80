"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.errors import WRONG_INPUT, CliError

Stack = Annotated[
    str, typer.Option("--stack", "-s", help="The environment: NAME of Pulumi.NAME.yaml.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

DEFAULT_STACK = "dev"

# For commands that hand what they do not know to another program.
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}


def in_a_folder(picture: Path | None) -> Path | None:
    """For --png: what cannot be written is told before the work, not after it."""
    if picture is not None and not picture.parent.is_dir():
        raise CliError(
            f"--png: {picture}: there is no folder {picture.parent}",
            fix="make the folder, or name another",
            exit_code=WRONG_INPUT,
        )
    if picture is not None and (picture.is_dir() or picture.suffix != ".png"):
        raise CliError(
            f"--png: {picture}: is not the name of a PNG file",
            fix="name a file that ends in .png",
            exit_code=WRONG_INPUT,
        )
    return picture
