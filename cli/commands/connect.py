"""Print the settings with which agents, SDKs and other clients use the gateway."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from cli.applied import Applied, planned, require
from cli.clients.settings import CLIENTS, Connection, settings_of
from cli.console import say, write_json
from cli.environment import Environment, find
from cli.errors import WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, Json, Stack
from cli.planning import plan_for_clients
from cli.views.client_settings import settings_lines

app = typer.Typer(add_completion=False)


@app.command()
def connect(
    client: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(CLIENTS)}; left out, all of them.")
    ] = None,
    stack: Stack = DEFAULT_STACK,
    model: Annotated[
        str | None, typer.Option(help="A model's name or alias; left out, the first.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Where clients reach the gateway, if not at its own address."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the settings with which agents, SDKs and other clients use the gateway.

    They are the addresses, names and certificate of the running environment; nothing is changed.
    """
    if client is not None and client not in CLIENTS:
        raise CliError(
            f'no settings of a client "{client}" are known',
            fix=f"use one of {', '.join(CLIENTS)}; any client of OpenAI's APIs works like openai,"
            " one of Anthropic's Messages API like anthropic",
            exit_code=WRONG_INPUT,
        )
    environment = find(stack)
    connection = _connection(_applied(environment), model, url)
    chosen = [settings_of(name, connection) for name in ([client] if client else CLIENTS)]
    if json:
        write_json(
            {
                "url": connection.url,
                "model": connection.model,
                "authorities": str(connection.authorities) if connection.authorities else None,
                "clients": [dataclasses.asdict(each) for each in chosen],
            }
        )
        return
    sys.stdout.write(settings_lines(chosen) + "\n")
    say("docs/clients.md says which calls, fields and events work")


def _applied(environment: Environment) -> Applied:
    """What runs, or would run on other machines: nothing is asked there."""
    lifecycle = lifecycle_of(environment)
    if lifecycle.hosts is None:
        return require(environment)
    operator = lifecycle.credentials / "operator"
    return planned(environment, plan_for_clients(environment), operator=operator)


def _connection(applied: Applied, model: str | None, url: str | None) -> Connection:
    authorities = applied.tls.authorities if applied.tls else None
    return Connection(
        url=_url(applied, url),
        model=_model(applied, model),
        authorities=authorities.resolve() if authorities else None,
    )


def _url(applied: Applied, given: str | None) -> str:
    if given is None:
        if applied.clients_url:
            return applied.clients_url
        raise CliError(
            f'the files of "{applied.environment}" do not say where clients reach its gateway',
            fix="give the address of its load balancer: slipway connect --url https://NAME",
            exit_code=WRONG_INPUT,
        )
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise CliError(
            f"--url: {given} is not the address of a gateway",
            fix="use http:// or https://, a name and perhaps a port, and no path",
            exit_code=WRONG_INPUT,
        )
    return f"{parts.scheme}://{parts.netloc}"


def _model(applied: Applied, given: str | None) -> str:
    """Of several models, that whose answer is shown elsewhere, too."""
    speaking = [each for each in applied.models if "http" in each.protocols]
    if given is None and speaking:
        shown = applied.shown_model
        return shown.name if shown in speaking and shown else speaking[0].name
    if given is not None and applied.model(given) in speaking:
        return given
    named = f' "{given}"' if given else ""
    raise CliError(
        f'the environment "{applied.environment}" serves no model{named} over HTTP',
        fix=f"use one of: {', '.join(each.name for each in speaking) or 'none'}",
        exit_code=WRONG_INPUT,
    )
