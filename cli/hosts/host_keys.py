"""The SSH host keys of machines that `up` creates: they are made and known before the machines."""

from __future__ import annotations

import secrets
from pathlib import Path

from cli.console import say
from cli.errors import CliError
from cli.pulumi.process import Pulumi
from components.aws_hosts.host_keys import public_key
from slipway.config.environment import NAMESPACE
from slipway.config.files import stack_file, written_values
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan, SshPlan
from stacks.planning import make_plan

KEY = f"{NAMESPACE}host_key_seed"
SEED_BYTES = 48


def with_host_keys(pulumi: Pulumi, plan: PlatformPlan) -> PlatformPlan:
    """The plan in which every host that `up` creates has a public key."""
    environment, ssh = pulumi.environment, plan.ssh
    made = _make(pulumi, ssh) if ssh is not None and ssh.makes_host_keys else []
    if ssh is None or not made:
        return plan
    say(
        f"SSH host keys made of {', '.join(made)}: commit {stack_file(environment.name)} and"
        f" {ssh.known_hosts}"
    )
    return make_plan(load_inputs(environment.checkout, environment.name))


def _make(pulumi: Pulumi, ssh: SshPlan) -> list[str]:
    """Adds the public keys of new hosts to the file of known hosts; returns the hosts.

    The seed becomes a secret of the stack file, which the user commits. CliError if there is none
    although hosts have keys: a new one would be that of other keys.
    """
    environment = pulumi.environment
    new = [name for name, host in ssh.hosts.items() if not host.host_key]
    source = stack_file(environment.name)
    if KEY in written_values(environment.checkout, environment.name):
        if not new:
            return []
        seed = pulumi.output("config", "get", KEY, "--stack", environment.name).strip()
    elif len(new) < len(ssh.hosts):
        raise CliError(
            f"{source}: {KEY} is missing, and {ssh.known_hosts} has public keys that were made"
            " from it",
            fix=f"restore {KEY} from an earlier version of {source}; without it, remove the"
            f" addresses of this environment from {ssh.known_hosts} and replace the hosts",
        )
    else:
        seed = secrets.token_urlsafe(SEED_BYTES)
        stack = ("--stack", environment.name)
        pulumi.output("config", "set", "--secret", KEY, *stack, given=seed)
    lines = [f"{ssh.own_address(name)} {public_key(seed, environment.name, name)}" for name in new]
    _append(environment.checkout / ssh.known_hosts, lines)
    return new


def _append(path: Path, lines: list[str]) -> None:
    before = path.read_text() if path.exists() else ""
    if before and not before.endswith("\n"):
        before += "\n"
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(before + "".join(f"{line}\n" for line in lines))
    partial.replace(path)
