"""Show the platform on a page in the browser, with a chat box."""

# ruff: noqa: PLC0415 - the web server is loaded once the environment is known

from __future__ import annotations

from typing import Annotated

import typer

from cli.console import results, say, write_json
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack

app = typer.Typer(add_completion=False)


@app.command()
def ui(
    stack: Stack = DEFAULT_STACK,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The port of the page; default: a free one."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the platform on a page in the browser, with a chat box.

    Prints an address of this machine that one browser can open once. The page reads with your
    certificate and token, changes nothing, and ends with this command (Ctrl-C).
    """
    environment = find(stack)
    lifecycle = lifecycle_of(environment)
    from cli.ui.listening import listen
    from cli.ui.observation import Observer
    from cli.ui.origins import origins
    from cli.ui.server import Site, application
    from cli.ui.serving import serve
    from cli.ui.session import Sessions, first_address

    sockets = listen(port)
    with lifecycle.asked() as applied:
        named, sessions = origins(sockets[0].getsockname()[1]), Sessions()
        site = Site(
            environment=environment,
            applied=applied,
            observer=Observer(environment=environment, applied=applied, fixes=lifecycle.host_fixes),
            when_silent=lifecycle.when_silent,
            origins=named,
            sessions=sessions,
        )
        address = first_address(named, sessions)
        if json:
            write_json({"url": address}, indent=None)
        else:
            say(f"{environment.name}: open this address in a browser, once; Ctrl-C ends the page")
            results.print(address, markup=False)
        serve(application(site), sockets)
