"""Add a model to an environment, or list what it serves and could serve."""

# ruff: noqa: PLC0415 - the planner loads only when it is asked

from __future__ import annotations

from typing import Annotated

import typer

from cli.environment import find
from cli.options import DEFAULT_STACK, Json, Stack
from cli.scaffold.options import (
    S3,
    Credentials,
    InputTokens,
    License,
    MaxLen,
    OutputTokens,
    Pools,
    RequestsPerS,
    Revision,
    Simulated,
    TpotGoal,
    TtftGoal,
    Yes,
    least_and_most,
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Add a model to an environment, or list what it serves and could serve.",
)


@app.command()
def add(
    model: Annotated[
        str,
        typer.Argument(
            help="A key of catalog/models.yaml, a name on the hub, or a folder with a config.json."
        ),
    ],
    stack: Stack = DEFAULT_STACK,
    *,
    name: Annotated[
        str | None, typer.Option("--name", help="The name that clients use. Default: the model's.")
    ] = None,
    pool: Pools = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", metavar="MIN..MAX", help="Default: what fits.")
    ] = None,
    max_len: MaxLen = None,
    simulated: Simulated = False,
    revision: Revision = None,
    s3: S3 = None,
    credentials: Credentials = None,
    license_name: License = None,
    requests_per_s: RequestsPerS = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    ttft_p95_ms: TtftGoal = None,
    tpot_p95_ms: TpotGoal = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Write models/NAME.yaml with the layout and limits that fit, and name it in the stack file.

    Shows the changes, and writes them on yes. With --json and without --yes nothing is written.
    """
    from cli.scaffold import adding
    from cli.scaffold.expected import Expected
    from cli.scaffold.weights import Asked

    environment = find(stack)
    adding.add(
        environment,
        Asked(
            model=model,
            name=name,
            revision=revision,
            s3=s3,
            credentials=credentials,
            simulated=simulated,
            license=license_name,
        ),
        adding.Limits(
            pools=tuple(pool or ()),
            max_model_len=max_len,
            replicas=least_and_most(replicas, "--replicas"),
        ),
        Expected(
            requests_per_s=requests_per_s,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            ttft_p95_ms=ttft_p95_ms,
            tpot_p95_ms=tpot_p95_ms,
        ),
        yes=yes,
        json=json,
    )


@app.command("list")
def list_models(stack: Stack = DEFAULT_STACK, *, json: Json = False) -> None:
    """Show what the environment serves, other model files, and what of the catalog fits."""
    from cli.scaffold import listing

    listing.show(find(stack), json=json)
