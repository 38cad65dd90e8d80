"""Hosts that are machines of their own, reached over SSH."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pulumi
import pulumi_command as command

from components.base import SlipwayComponent
from components.hosts.delivery import CACHE, delivery_document, key_scan, run_folder, scratch_folder
from components.hosts.local import LocalHosts
from components.hosts.program import HostProgram
from components.hosts.supervision import SYSTEM_PYTHON
from slipway.plan.platform import PlatformPlan, SshHost, SshPlan

DELIVERY_TIMEOUT_S = 1800  # gigabytes of an engine over a slow line
IMAGE_TIMEOUT_S = 7200  # tens of gigabytes, to all hosts at once
NO_SECRETS = '{"schema_version": 1}'


class SshHosts:
    """Programs of a host run there; those of the operator's machine run here.

    Before the first run on a host, its tools, environments and code are brought there. The hosts'
    keys are pinned. Private keys come from an ssh-agent, so no state has them.

    `machines`: what has to be there before a host can be reached, by host, where Pulumi creates it.
    """

    def __init__(
        self,
        plan: PlatformPlan,
        machines: Mapping[str, Sequence[pulumi.Resource]] = MappingProxyType({}),
    ) -> None:
        self._plan, self._machines = plan, machines
        self._ssh = reachable(plan)
        self._operator = LocalHosts()
        self._deliveries: dict[str, pulumi.Resource] = {}
        self._no_secrets = pulumi.Output.from_input(NO_SECRETS)

    def run(
        self,
        program: HostProgram,
        name: str,
        parent: SlipwayComponent,
        *,
        on: str = "",
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        if not on:
            return self._operator.run(program, name, parent, depends_on=depends_on)
        return command.remote.Command(
            name,
            connection=_connection(self._ssh, on),
            create=self._command(program, "apply"),
            delete=self._command(program, "remove") if program.removes else None,
            stdin=program.secrets,
            opts=parent.child_options(
                depends_on=[*self.preparation(on, parent), *depends_on],
                custom_timeouts=program.custom_timeouts,
                protect=program.protect,
            ),
        )

    def _command(self, program: HostProgram, action: str) -> str:
        """Variables are part of the command, because SSH servers accept none by default. Secrets
        are not: they go through standard input."""
        variables = {
            "SLIPWAY_RUN": run_folder(self._plan.environment),
            "SLIPWAY_CACHE": CACHE,
            "SLIPWAY_SCRATCH": scratch_folder(self._plan.environment),
            **program.environment,
        }
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        script = f"{CACHE}/bundles/{program.bundle}/{program.script}"
        return f"{settings} exec {SYSTEM_PYTHON} {script} {action}"

    def preparation(self, host: str, parent: SlipwayComponent) -> Sequence[pulumi.Resource]:
        if host not in self._deliveries:
            document = delivery_document(self._plan, self._ssh, host)
            self._deliveries[host] = self._operator.run(
                HostProgram(
                    bundle=self._plan.operator.bundle,
                    script="deliver.py",
                    document=document,
                    secrets=self._no_secrets,
                    timeout_s=IMAGE_TIMEOUT_S if "image" in document else DELIVERY_TIMEOUT_S,
                ),
                f"delivery-{host}",
                parent,
                depends_on=self._machines.get(host, ()),
            )
        return [self._deliveries[host]]


def reachable(plan: PlatformPlan) -> SshPlan:
    """How the hosts are reached. RunError with what is missing in the environment's files."""
    source, ssh = f"Pulumi.{plan.environment}.yaml", plan.ssh
    if ssh is None:
        raise pulumi.RunError(
            f"{source}: slipway:ssh is missing: it says how the hosts are reached\n"
            "fix: add slipway:ssh: {known_hosts: known_hosts}"
        )
    if ssh.unknown and not (ssh.makes_host_keys and pulumi.runtime.is_dry_run()):
        addresses = ", ".join(sorted({host.address for host in ssh.unknown}))
        raise pulumi.RunError(
            f"{source}: {ssh.known_hosts} has no public key of {addresses}\n"
            f"fix: {_how_keys_come(plan, ssh)}"
        )
    return ssh


def _how_keys_come(plan: PlatformPlan, ssh: SshPlan) -> str:
    if ssh.makes_host_keys:
        return f"slipway up -s {plan.environment}, which makes them before the hosts"
    return key_scan(ssh.unknown, ssh.known_hosts)


def must_list_machines(plan: PlatformPlan) -> None:
    """RunError where somebody has to say which machines there are, and nobody has."""
    nodes = [pool.name for pool in plan.pools if not pool.hosts]
    if nodes or not all(server.address for server in plan.servers):
        where = f"pools.{nodes[0]}.hosts" if nodes else "server_hosts"
        raise pulumi.RunError(
            f"Pulumi.{plan.environment}.yaml: slipway:{where} is missing: list the machines"
        )


def _connection(ssh: SshPlan, host: str) -> command.remote.ConnectionArgs:
    jump = ssh.jump
    return command.remote.ConnectionArgs(
        **_place(ssh.hosts[host]),
        proxy=command.remote.ProxyConnectionArgs(**_place(jump)) if jump else None,
    )


def _place(host: SshHost) -> Mapping[str, Any]:
    return {
        "host": host.address,
        "port": float(host.port),
        "user": host.user,
        "host_key": host.host_key,
    }
