"""Run the project's own tests."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.errors import FAILED
from cli.options import PASS_THROUGH
from toolchain.settings import default_cache

app = typer.Typer(add_completion=False)


@app.command(context_settings={**PASS_THROUGH, "help_option_names": ["--help"]})
def test(
    context: typer.Context,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Only the linters and quick tests that need no binaries."),
    ] = False,  # noqa: PT028  (a command, not a test)
) -> None:
    """Run the project's own tests (takes pytest arguments).

    Paths choose suites: `slipway test tests/unit`, `slipway test services/xds -k delta`.
    A test that failed runs once more, alone, when all have ended; if it passes then, it is named
    under "passed only alone", and the exit code is 0.
    """
    # Imported here: other commands never load the tests' own code.
    from tests.runner import run  # noqa: PLC0415
    from tests.suites import chosen_suites, fast_suites  # noqa: PLC0415

    arguments = context.args
    suites = fast_suites(arguments) if fast else chosen_suites(arguments, default_cache())
    if not run(list(suites)):
        raise typer.Exit(FAILED)
