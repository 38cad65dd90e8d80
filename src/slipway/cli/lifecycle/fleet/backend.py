"""Pulumi with the user's own backend and secrets provider.

The backend comes from PULUMI_BACKEND_URL, `pulumi login` or `backend:` in Pulumi.yaml; the secrets
provider comes from the stack file, or is a passphrase in PULUMI_CONFIG_PASSPHRASE or its _FILE.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from slipway.cli.environment import Environment, inherited
from slipway.cli.errors import CliError
from slipway.cli.pulumi.plugins import plugin_folders, plugin_kind, plugin_variables
from slipway.cli.pulumi.process import Pulumi
from slipway.cli.pulumi.state import StackState, state_of
from slipway.config.document import read_document
from slipway.config.inputs import stack_file


def users_pulumi(environment: Environment) -> Pulumi:
    not_the_users = variables_of_dev(environment)
    users = {key: value for key, value in inherited().items() if key not in not_the_users}
    return Pulumi(environment=environment, variables={**users, **program_variables(environment)})


def program_variables(environment: Environment) -> dict[str, str]:
    kind = plugin_kind(environment)
    # On PATH, because Pulumi looks for plugins in PULUMI_HOME, which is the user's.
    variables = environment.program_variables(plugins=plugin_folders(environment, kind))
    return {**variables, **plugin_variables(kind)}


def variables_of_dev(
    environment: Environment, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Variables of dev's `slipway env` that this shell still has: they would put a fleet's state
    into the checkout."""
    return [name for name, value in environment.own_backend.items() if environ.get(name) == value]


def has_stack(pulumi: Pulumi) -> bool:
    """Whether the stack exists, by the list of stacks: other commands fail alike without a stack
    and without a backend."""
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


def stack_state(pulumi: Pulumi) -> StackState | None:
    """The stack's state; None if there is no stack."""
    if not has_stack(pulumi):
        return None
    exported = pulumi.output("stack", "export", "--stack", pulumi.environment.name)
    return state_of(json.loads(exported)["deployment"])


def remove_empty_stack(pulumi: Pulumi) -> None:
    """Removes the stack but not its file. Pulumi refuses while the stack has resources."""
    stack = ("--stack", pulumi.environment.name)
    pulumi.output("stack", "rm", *stack, "--yes", "--preserve-config")
