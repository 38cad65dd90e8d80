"""Options that `slipway init` and `slipway models add` share."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import WRONG_INPUT, CliError

Pools = Annotated[
    list[str] | None,
    typer.Option("--pool", help="A pool that may run it. May be repeated. Default: all that fit."),
]
MaxLen = Annotated[
    int | None, typer.Option("--max-len", min=1, help="Tokens of the longest request.")
]
Simulated = Annotated[
    bool, typer.Option("--simulated", help="Simulate the model: an engine without weights.")
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", help="A commit of the hub, or your name for a folder's content."),
]
S3 = Annotated[
    str | None, typer.Option("--s3", metavar="URL", help="Where a bucket has the weights.")
]
Credentials = Annotated[
    str | None,
    typer.Option("--credentials", help="NAME of the Nomad variable slipway/credentials/NAME."),
]
License = Annotated[
    str | None,
    typer.Option("--license", help="Of the weights, where the catalog does not state it."),
]


def finite(value: float | None) -> float | None:
    """Also "inf" and "nan" are numbers to Python."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to plan with; write e.g. 2")
    return value


RequestsPerS = Annotated[
    float | None,
    typer.Option("--requests-per-s", min=1e-6, callback=finite, help="The load to plan for."),
]
InputTokens = Annotated[
    int | None, typer.Option("--input-tokens", min=1, help="Of a usual request.")
]
OutputTokens = Annotated[
    int | None, typer.Option("--output-tokens", min=1, help="Of a usual answer.")
]
TtftGoal = Annotated[
    int | None,
    typer.Option("--ttft-p95-ms", min=1, help="Goal for the time to the first token."),
]
TpotGoal = Annotated[
    int | None, typer.Option("--tpot-p95-ms", min=1, help="Goal for the time of a further token.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]


def least_and_most(text: str | None, option: str) -> tuple[int, int] | None:
    """ "2..4" or "2" """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    if match is None:
        raise CliError(
            f'{option}: "{text}" is not a range', fix="write e.g. 1..2", exit_code=WRONG_INPUT
        )
    least = int(match[1])
    most = int(match[2] or least)
    if not 1 <= least <= most:
        raise CliError(
            f"{option}: {text} does not go up from at least 1",
            fix="write e.g. 1..2",
            exit_code=WRONG_INPUT,
        )
    return least, most


def whole(value: float) -> float | int:
    """2 rather than 2.0, as people write it."""
    return int(value) if value == int(value) else value


def expanded(text: str) -> Path:
    """The path, where "~" is a home. CliError if there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = text.partition("/")[0]
        raise CliError(
            f"{text}: {user} is no user's home", fix="correct the path", exit_code=WRONG_INPUT
        ) from None
