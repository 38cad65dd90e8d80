"""How the hosts of an environment are reached."""

from __future__ import annotations

from slipway.config.environment import FleetSettings, listed_hosts
from slipway.config.inputs import PlanInputs
from slipway.plan.platform import SshHost, SshPlan


def plan_ssh(inputs: PlanInputs) -> SshPlan | None:
    """None where hosts are not reached over SSH."""
    settings, keys = inputs.environment.settings, inputs.host_keys
    if not isinstance(settings, FleetSettings) or settings.ssh is None:
        return None
    ssh = settings.ssh
    hosts = {
        host.name: SshHost(
            address=host.address, port=ssh.port, user=ssh.user, host_key=keys.get(host.address, "")
        )
        for host in listed_hosts(settings)
    }
    jump = None
    if ssh.jump is not None:
        jump = SshHost(
            address=ssh.jump.host,
            port=ssh.jump.port,
            user=ssh.jump.user,
            host_key=keys.get(ssh.jump.host, ""),
        )
    return SshPlan(hosts=hosts, jump=jump, key=ssh.key or "", known_hosts=ssh.known_hosts)
