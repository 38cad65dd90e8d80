"""How the hosts of an environment are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

from slipway.config.aws import AwsSettings
from slipway.config.fleet import FleetSettings
from slipway.config.hosts import HostSettings
from slipway.config.ssh import ConnectSettings, JumpSettings
from slipway.inputs import PlanInputs
from slipway.plan.platform import SshHost, SshPlan, TunnelsPlan
from slipway.planner.operator import derived_address

TUNNEL_PORT = 22022  # any user may listen there


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
    jump, tunnels = None, _tunnels(inputs)
    if tunnels is not None:
        hosts = {
            name: replace(host, address=tunnels.loopback(host.address), port=TUNNEL_PORT)
            for name, host in hosts.items()
        }
    if isinstance(ssh.jump, JumpSettings):
        jump = _place(ssh.jump.host, ssh.jump.port, ssh.jump.user, keys)
    private = dict.fromkeys(key for key in (ssh.key, *(host.ssh.key for host in listed)) if key)
    return SshPlan(
        hosts=hosts,
        jump=jump,
        keys=tuple(private),
        known_hosts=ssh.known_hosts,
        makes_host_keys=isinstance(settings, AwsSettings),
        tunnels=tunnels,
    )


def _tunnels(inputs: PlanInputs) -> TunnelsPlan | None:
    """None where the hosts' own addresses are used, directly or through a jump host. Two
    environments have the same loopback network only by chance, or with the same local_address."""
    settings = inputs.environment.settings
    if not isinstance(settings, AwsSettings) or settings.ssh is None or settings.aws is None:
        return None
    if not isinstance(settings.ssh.jump, ConnectSettings):
        return None
    network = IPv4Network(settings.network.cidr)
    first = settings.ssh.local_address or derived_address(inputs.environment.name)
    local = IPv4Network(f"{first}/8", strict=False).network_address
    local += int(IPv4Address(first).packed[1]) << 16
    return TunnelsPlan(
        region=settings.aws.region, network=str(network), local=f"{local}/{network.prefixlen}"
    )


def _place(address: str, port: int, user: str, keys: Mapping[str, str]) -> SshHost:
    """OpenSSH writes a port other than 22 into known_hosts: "[10.50.0.13]:2222"."""
    host_key = keys.get(f"[{address}]:{port}") or keys.get(address, "")
    return SshHost(address=address, port=port, user=user, host_key=host_key)
