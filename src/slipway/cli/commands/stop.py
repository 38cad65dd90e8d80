"""End all processes of the environment; its state stays."""

from __future__ import annotations

import typer

from slipway.cli.applied import recorded
from slipway.cli.console import say
from slipway.cli.environment import find
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.platform import agents
from slipway.cli.pulumi.locks import clear_stale_locks, exclusive

app = typer.Typer(add_completion=False)


@app.command()
def stop(stack: Stack = DEFAULT_STACK) -> None:
    """End all processes of the environment; its state stays."""
    environment = find(stack)
    with exclusive(environment):
        clear_stale_locks(environment)  # an update under way would start agents again
        agents.stop(environment, recorded(environment))
    say(f"stopped; slipway start -s {environment.name} brings it back")
