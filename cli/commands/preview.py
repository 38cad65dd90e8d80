"""Show what `up` would change."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

import typer

from cli.console import print_tables, say, write_json
from cli.environment import Environment, find
from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.lifecycle.registry import lifecycle_of
from cli.options import DEFAULT_STACK, PASS_THROUGH, Json, Stack
from cli.planning import warn_of_certificate
from cli.progress import ToolchainProgress
from cli.pulumi.cloud_plugins import must_have_plugins
from cli.pulumi.offline import offline_preview
from cli.pulumi.plugins import describe, fork_plugins_and_program, prepare_plugins
from cli.pulumi.policy_pack import policy_arguments, start_policy_server
from cli.targets import must_be_built
from cli.views.offline_tree import offline_tree
from slipway.inputs import load_inputs
from stacks.planning import make_plan
from toolchain import resolve

app = typer.Typer(add_completion=False)


@app.command(context_settings=PASS_THROUGH)
def preview(
    context: typer.Context,
    stack: Stack = DEFAULT_STACK,
    json: Json = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Show all resources as for a first `up`, without credentials, plugins or cluster.",
        ),
    ] = False,
) -> None:
    """Show what `up` would change (pulumi preview; takes its arguments)."""
    environment = find(stack)
    must_be_built(environment)
    if not offline:
        must_have_plugins(environment)
        fork_plugins_and_program(environment)
        start_policy_server(environment)
    # Mistakes in files come first.
    inputs = load_inputs(environment.checkout, environment.name)
    plan = make_plan(inputs)
    warn_of_certificate(inputs)
    if offline:
        _show_offline(environment, context.args, json=json)
        return
    lifecycle = lifecycle_of(environment)
    resolve.tools(["pulumi"], environment.cache, ToolchainProgress())
    say(f"Pulumi uses {describe(environment, prepare_plugins(environment))}")
    refresh = lifecycle.before_preview(plan, context.args)
    state = lifecycle.state()
    arguments = [
        *(["--json"] if json else []),
        *policy_arguments(environment, state),
        *refresh,
        *context.args,
    ]
    asks = state is not None and state.needs_cluster and "--refresh=false" not in arguments
    with lifecycle.reaching(plan) if asks else nullcontext({}) as variables:
        pulumi = lifecycle.pulumi()
        code = replace(pulumi, variables={**pulumi.variables, **variables}).preview(arguments)
    if code:
        raise typer.Exit(FAILED)


def _show_offline(environment: Environment, arguments: list[str], *, json: bool) -> None:
    if arguments:
        raise CliError(
            f"--offline does not run pulumi, so it cannot pass on {arguments[0]}",
            fix=f"leave out {' '.join(arguments)}",
            exit_code=WRONG_INPUT,
        )
    preview = offline_preview(environment)
    if json:
        write_json(preview)
    else:
        print_tables(offline_tree(environment.name, preview))
