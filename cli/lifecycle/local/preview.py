"""Prepares a preview on this machine: says what `up` keeps, and skips the refresh if the
environment is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from cli.applied import recorded
from cli.clusters.nomad import cluster_answers
from cli.console import say
from cli.environment import Environment
from cli.lifecycle.local.backend import own_pulumi, prepare_stack
from cli.pulumi.locks import exclusive
from cli.pulumi.state import read_state
from slipway.plan.platform import PlatformPlan


def before_preview(environment: Environment, plan: PlatformPlan, given: Sequence[str]) -> list[str]:
    environment.make_pulumi_folders()
    with exclusive(environment):  # may write the state, which the preview itself only reads
        prepare_stack(own_pulumi(environment))
    _tell_what_up_keeps(environment, plan)
    return _refresh(environment, given)


def _tell_what_up_keeps(environment: Environment, plan: PlatformPlan) -> None:
    """`up` removes the deletion mark of a job that is wanted again; Pulumi's preview does not
    know that."""
    state = read_state(environment)
    marked = set() if state is None else set(state.jobs_to_delete)
    if kept := marked.intersection(model.stable.job_id for model in plan.models):
        say(
            "an earlier change failed; up keeps these jobs, shown as deleted here:"
            f" {', '.join(sorted(kept))}",
            style="yellow",
        )


def _refresh(environment: Environment, given: Sequence[str]) -> list[str]:
    """A refresh asks Nomad and Consul, so it always fails for a stopped environment."""
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
