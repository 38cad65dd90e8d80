"""Let the next `down` destroy clusters and pools."""

from __future__ import annotations

import typer

from cli.console import say
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Stack
from cli.pulumi.locks import exclusive

app = typer.Typer(add_completion=False)


@app.command()
def unprotect(stack: Stack = DEFAULT_STACK) -> None:
    """Let the next `down` destroy clusters and pools.

    They are protected on machines that are not this one: neither `up` nor `down` deletes or
    replaces them. The next `up` protects them again.
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    with exclusive(environment):
        state = lifecycle.state()
        if state is None or not state.protected:
            say(f'"{environment.name}" has no protected resources')
            return
        arguments = ("--all", "--yes", "--stack", environment.name)
        lifecycle.pulumi().output("state", "unprotect", *arguments)
    for urn in state.protected:
        say(f"no longer protected: {urn.rpartition('::')[2]}")
    say(f"slipway down -s {environment.name} may destroy them; slipway up protects them again")
