"""How the hosts of an environment are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.config.aws import AwsSettings
from slipway.config.fleet import FleetSettings
from slipway.config.hosts import HostSettings
from slipway.inputs import PlanInputs
from slipway.plan.platform import SshHost, SshPlan


def plan_ssh(inputs: PlanInputs, listed: Sequence[HostSettings]) -> SshPlan | None:
    """How the hosts that have addresses are reached; None where that is not over SSH."""
    settings, keys = inputs.environment.settings, inputs.host_keys
    if not isinstance(settings, FleetSettings) or settings.ssh is None:
        return None
    ssh = settings.ssh
    hosts = {
        host.name: _place(host.address, host.ssh.port or ssh.port, host.ssh.user or ssh.user, keys)
        for host in listed
    }
    jump = None
    if ssh.jump is not None:
        jump = _place(ssh.jump.host, ssh.jump.port, ssh.jump.user, keys)
    private = dict.fromkeys(key for key in (ssh.key, *(host.ssh.key for host in listed)) if key)
    return SshPlan(
        hosts=hosts,
        jump=jump,
        keys=tuple(private),
        known_hosts=ssh.known_hosts,
        makes_host_keys=isinstance(settings, AwsSettings),
    )


def _place(address: str, port: int, user: str, keys: Mapping[str, str]) -> SshHost:
    """OpenSSH writes a port other than 22 into known_hosts: "[10.50.0.13]:2222"."""
    host_key = keys.get(f"[{address}]:{port}") or keys.get(address, "")
    return SshHost(address=address, port=port, user=user, host_key=host_key)
