"""Pulumi with a file backend in this checkout and a passphrase that is not a secret."""

from __future__ import annotations

from collections.abc import Collection

from cli.console import say
from cli.environment import Environment
from cli.pulumi.locks import clear_stale_locks
from cli.pulumi.plugins import plugin_kind, with_plugin_variables
from cli.pulumi.process import Pulumi
from cli.pulumi.repairs import (
    leaving_hosts,
    say_kept,
    with_hosts_applied,
    with_jobs_kept,
)
from cli.pulumi.state import read_state


def own_pulumi(environment: Environment) -> Pulumi:
    variables = with_plugin_variables(environment.child_environment(), plugin_kind(environment))
    return Pulumi(environment=environment, variables=variables)


def prepare_stack(
    pulumi: Pulumi, wanted_jobs: Collection[str] = (), wanted_hosts: Collection[str] = ()
) -> None:
    """Makes the stack ready for an update: it exists and is unlocked, and interrupted runs are
    repaired.

    An interrupted creation stays "pending" in the state, and Pulumi would warn about it forever.
    It can be forgotten, because creating any of our resources again is harmless.

    A failed change of a model leaves the old job serving and marked for deletion. If the files now
    want that job again (`wanted_jobs`, IDs), Pulumi would adopt it and still delete it at the end,
    so the marked entry is changed to be forgotten instead.

    A failed removal of a node may have drained it or ended its agents. If the files now want that
    node again (`wanted_hosts`), its program runs again.
    """
    environment = pulumi.environment
    clear_stale_locks(environment)
    state = read_state(environment)
    if state is None:
        pulumi.output("stack", "init", environment.name, "--secrets-provider", "passphrase")
        return
    kept = set(wanted_jobs).intersection(state.jobs_to_delete)
    if state.interrupted:
        say(f"an earlier run was interrupted while creating {', '.join(state.interrupted)}")
    if kept:
        say_kept(kept)
    back = set(wanted_hosts).intersection(leaving_hosts(environment))
    if back:
        say(f"an earlier removal did not finish; brought back: {', '.join(sorted(back))}")
    if not state.interrupted and not state.jobs_to_delete and not back:
        return
    exported = pulumi.output("stack", "export", "--stack", environment.name)
    repaired = with_jobs_kept(exported, kept) if state.jobs_to_delete else exported
    repaired = with_hosts_applied(repaired, back) if back else repaired
    if state.interrupted or repaired != exported:
        # Importing an export drops the pending operations; secrets stay encrypted on the way.
        pulumi.output("stack", "import", "--stack", environment.name, given=repaired)
