"""Show what `up` would change."""

from __future__ import annotations

from typing import Annotated

import typer

from slipway.cli.applied import recorded
from slipway.cli.console import print_tables, say, write_json
from slipway.cli.environment import Environment, find
from slipway.cli.errors import FAILED, WRONG_INPUT, CliError
from slipway.cli.options import DEFAULT_STACK, PASS_THROUGH, Json, Stack
from slipway.cli.platform.nomad import cluster_answers
from slipway.cli.progress import ToolchainProgress
from slipway.cli.pulumi.locks import exclusive
from slipway.cli.pulumi.offline import offline_preview
from slipway.cli.pulumi.plugins import DESCRIPTION, prepare_plugins
from slipway.cli.pulumi.policy_pack import policy_arguments
from slipway.cli.pulumi.process import Pulumi
from slipway.cli.pulumi.state import read_state
from slipway.cli.targets import must_have_components
from slipway.cli.views.offline_tree import offline_tree
from slipway.config.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from slipway.planner.platform import make_plan
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
            help="Show every resource as for a first `up`: no credentials, plugins or cluster.",
        ),
    ] = False,
) -> None:
    """Show what `up` would change (pulumi preview; takes its arguments)."""
    environment = find(stack)
    must_have_components(environment)
    # Mistakes in files come first.
    plan = make_plan(load_inputs(environment.checkout, environment.name))
    if offline:
        _show_offline(environment, context.args, json=json)
        return
    resolve.tools(["pulumi"], environment.cache, ToolchainProgress())
    environment.make_pulumi_folders()
    say(f"Pulumi uses {DESCRIPTION[prepare_plugins(environment)]}")
    pulumi = Pulumi(environment=environment)
    with exclusive(environment):  # this may write the state; the preview itself only reads it
        pulumi.prepare_stack()
    _tell_what_up_keeps(environment, plan)
    arguments = [
        *(["--json"] if json else []),
        *policy_arguments(environment),
        *_refresh(environment, context.args),
        *context.args,
    ]
    if pulumi.preview(arguments):
        raise typer.Exit(FAILED)


def _show_offline(environment: Environment, arguments: list[str], *, json: bool) -> None:
    if arguments:
        raise CliError(
            f"--offline does not run pulumi, which could take {arguments[0]}",
            fix=f"leave out {' '.join(arguments)}",
            exit_code=WRONG_INPUT,
        )
    preview = offline_preview(environment)
    if json:
        write_json(preview)
    else:
        print_tables(offline_tree(environment.name, preview))


def _tell_what_up_keeps(environment: Environment, plan: PlatformPlan) -> None:
    """`up` takes back the mark of a job that is wanted again; Pulumi alone would delete it."""
    state = read_state(environment)
    marked = set() if state is None else set(state.jobs_to_delete)
    if kept := marked.intersection(model.job_id for model in plan.models):
        say(
            "an earlier change failed; up keeps what still serves, shown as deleted here:"
            f" {', '.join(sorted(kept))}",
            style="yellow",
        )


def _refresh(environment: Environment, given: list[str]) -> list[str]:
    """A refresh asks Nomad and Consul; of a stopped environment it could only fail."""
    if any(argument.startswith(("--refresh", "-r")) for argument in given):
        return []
    state = read_state(environment)
    if state is None or not state.needs_cluster:
        return []
    if cluster_answers(environment, recorded(environment)):
        return []
    say(
        "the environment is stopped: compared with its last known state, without a refresh"
        f" (slipway start -s {environment.name} brings it back)",
        style="yellow",
    )
    return ["--refresh=false"]
