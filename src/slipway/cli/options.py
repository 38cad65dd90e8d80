"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Stack = Annotated[
    str, typer.Option("--stack", "-s", help="The environment: NAME of Pulumi.NAME.yaml.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

DEFAULT_STACK = "dev"

# For commands that hand what they do not know to another program.
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}
