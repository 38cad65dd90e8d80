"""Pulumi with the user's own backend and secrets provider.

The backend comes from PULUMI_BACKEND_URL, `pulumi login` or `backend:` in Pulumi.yaml; the secrets
provider comes from the stack file, or is a passphrase in PULUMI_CONFIG_PASSPHRASE or its _FILE.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping

from cli.console import say
from cli.environment import Environment, inherited
from cli.errors import WRONG_INPUT, CliError
from cli.hosts.forgetting import recorded_hosts
from cli.pulumi.authorities import must_follow
from cli.pulumi.cloud_sdks import make_sdk
from cli.pulumi.host_repairs import (
    admitted_hosts,
    of_servers,
    unfinished_hosts,
    with_admissions_again,
    with_applied_again,
    with_deliveries_again,
)
from cli.pulumi.plugins import (
    Kind,
    plugin_folders,
    plugin_kind,
    plugin_variables,
    with_plugin_variables,
)
from cli.pulumi.process import Pulumi
from cli.pulumi.repairs import say_kept, with_jobs_kept
from cli.pulumi.state import StackState, state_of
from cli.targets import target_of
from slipway.config.document import read_document
from slipway.config.files import stack_file
from slipway.plan.platform import PlatformPlan


def users_pulumi(environment: Environment) -> Pulumi:
    make_sdk(target_of(environment) or "", environment.checkout, environment.cache)
    not_the_users = variables_of_dev(environment)
    users = {key: value for key, value in inherited().items() if key not in not_the_users}
    kind = plugin_kind(environment)
    variables = {**users, **program_variables(environment, kind)}
    return Pulumi(environment=environment, variables=with_plugin_variables(variables, kind))


def program_variables(environment: Environment, kind: Kind | None) -> dict[str, str]:
    # On PATH, because Pulumi looks for plugins in PULUMI_HOME, which is the user's.
    variables = environment.program_variables(plugins=plugin_folders(environment, kind))
    return {
        **environment.host_variables(environment.access),
        **variables,
        **plugin_variables(kind),
    }


def variables_of_dev(
    environment: Environment, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Variables of dev's `slipway env` that this shell still has: they would put a fleet's state
    into the checkout."""
    return [name for name, value in environment.own_backend.items() if environ.get(name) == value]


def has_stack(pulumi: Pulumi) -> bool:
    """Whether the stack exists, from the list of stacks: other commands fail in the same way
    without a stack as without a backend."""
    try:
        listed = json.loads(pulumi.output("stack", "ls", "--json"))
    except CliError as error:
        raise CliError(
            error.message,
            fix="correct what it reports; the backend comes from PULUMI_BACKEND_URL, `pulumi login`"
            " or `backend:` in Pulumi.yaml",
        ) from None
    return any(stack["name"].rpartition("/")[2] == pulumi.environment.name for stack in listed)


def make_stack(pulumi: Pulumi) -> None:
    """Creates the stack if it does not exist, with the secrets provider named in its file."""
    if has_stack(pulumi):
        return
    environment = pulumi.environment
    source = stack_file(environment.name)
    settings = read_document(environment.checkout / source, source=source).values
    provider = str(settings.get("secretsprovider") or "default")
    pulumi.output("stack", "init", environment.name, "--no-select", "--secrets-provider", provider)


def prepare_state(pulumi: Pulumi, plan: PlatformPlan, admitted_again: Collection[str] = ()) -> str:
    """Prepares the state for an update to the plan. Returns the exported stack, as it was.

    Keeps the jobs that a failed change left serving and the files now want again: Pulumi would
    adopt such a job and still delete it at the end. Has the hosts `admitted_again` set up and
    admitted again, and those of the plan whose agents have not joined.

    CliError for a host that is not of the stack, and if the plan's authorities cannot follow the
    state's.
    """
    exported = export(pulumi)
    state = state_of(json.loads(exported)["deployment"])
    must_follow(state, plan)
    kept = {model.stable.job_id for model in plan.models}.intersection(state.jobs_to_delete)
    repaired = with_jobs_kept(exported, kept)
    if repaired != exported and kept:
        say_kept(kept)
    _must_be_admitted(pulumi, exported, admitted_again)
    again = {*admitted_again, *(unfinished_hosts(exported) & _nodes(plan))}
    if again:
        say(f"admitted again: {', '.join(sorted(again))}")
    change_state(pulumi, exported, with_admissions_again(repaired, again))
    return exported


def export(pulumi: Pulumi) -> str:
    """The stack with its state; secrets stay encrypted."""
    return pulumi.output("stack", "export", "--stack", pulumi.environment.name)


def change_state(pulumi: Pulumi, exported: str, changed: str) -> None:
    """Imports an exported stack that was changed; Pulumi locks it meanwhile."""
    if changed == exported:
        return
    state = state_of(json.loads(exported)["deployment"])
    if state.interrupted:
        # An import drops Pulumi's pending operations.
        say(
            f"an earlier run was interrupted while creating {', '.join(state.interrupted)}: look"
            " for what it created; the state does not have it",
            style="yellow",
        )
    pulumi.output("stack", "import", "--stack", pulumi.environment.name, given=changed)


def deliver_again(pulumi: Pulumi, hosts: Collection[str]) -> None:
    """Has the next update bring to these hosts again what they run."""
    exported = export(pulumi)
    change_state(pulumi, exported, with_deliveries_again(exported, hosts))


def servers_again(pulumi: Pulumi, exported: str, plan: PlatformPlan) -> list[str]:
    """Has the next update set up the servers again, as if they were new. Returns the URNs of what
    it has to change. CliError if the stack does not have all servers."""
    found = of_servers(exported, [server.name for server in plan.servers])
    absent = [each.name for each in plan.servers if f"consul-{each.name}" not in found]
    if absent:
        raise CliError(
            f"the state does not have {', '.join(absent)}",
            fix="a restore needs the state and the files with which the servers were set up",
            exit_code=WRONG_INPUT,
        )
    change_state(pulumi, exported, with_applied_again(exported, found))
    return list(found.values())


def hosts_left(pulumi: Pulumi, plan: PlatformPlan) -> set[str]:
    """Hosts of the stack that are not in the files."""
    return admitted_hosts(export(pulumi)) - _nodes(plan)


def leaving(exported: str, plan: PlatformPlan) -> list[str]:
    """The addresses of hosts in an exported stack that are reached over SSH and are not in the
    files."""
    if plan.ssh is None:
        return []
    found = sorted(recorded_hosts(exported), key=lambda host: host.name)
    return [host.way["address"] for host in found if host.name not in plan.ssh.hosts]


def _nodes(plan: PlatformPlan) -> set[str]:
    return {node.name for pool in plan.pools for node in pool.hosts}


def _must_be_admitted(pulumi: Pulumi, exported: str, hosts: Collection[str]) -> None:
    admitted = admitted_hosts(exported)
    for host in sorted(set(hosts) - admitted):
        listed = ", ".join(sorted(admitted)) or "none"
        raise CliError(
            f'"{pulumi.environment.name}" has admitted no host {host}; it has: {listed}',
            fix="name one of these; slipway up admits the hosts that the files add",
            exit_code=WRONG_INPUT,
        )


def stack_state(pulumi: Pulumi) -> StackState | None:
    """The stack's state; None if there is no stack."""
    if not has_stack(pulumi):
        return None
    return state_of(json.loads(export(pulumi))["deployment"])


def remove_empty_stack(pulumi: Pulumi) -> None:
    """Removes the stack but not its file. Pulumi refuses while the stack has resources."""
    stack = ("--stack", pulumi.environment.name)
    pulumi.output("stack", "rm", *stack, "--yes", "--preserve-config")
