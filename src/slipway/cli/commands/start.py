"""Bring a stopped environment back, without Pulumi."""

from __future__ import annotations

import typer

from slipway.cli.applied import require
from slipway.cli.console import say
from slipway.cli.environment import find
from slipway.cli.options import DEFAULT_STACK, Stack
from slipway.cli.platform import agents
from slipway.cli.platform.nomad import Nomad
from slipway.cli.platform.readiness import ROUTE_TIMEOUT_S, wait_for_leader, wait_for_models
from slipway.cli.progress import Phases
from slipway.cli.pulumi.locks import exclusive

app = typer.Typer(add_completion=False)


@app.command()
def start(stack: Stack = DEFAULT_STACK) -> None:
    """Bring a stopped environment back, without Pulumi.

    Ends when every model answers through the gateway.
    """
    environment = find(stack)
    applied = require(environment)
    phases = Phases()
    with exclusive(environment):
        environment.make_folders()  # the scratch folder does not outlive a reboot
        with phases.phase("agents", "Consul and Nomad"):
            agents.start(environment, applied)
            with Nomad.of(environment, applied) as nomad:
                wait_for_leader(nomad)
        loading_s = max((model.load_timeout_s for model in applied.models), default=0)
        with phases.phase("models", "loading, until the gateway answers for each"):
            wait_for_models(applied, timeout_s=loading_s + ROUTE_TIMEOUT_S)
    say(f"gateway  {applied.gateway_http} (OpenAI)   {applied.gateway_grpc} (Triton gRPC)")
