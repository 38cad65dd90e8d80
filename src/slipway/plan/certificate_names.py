"""The names in certificates by which the parts of an environment know each other."""

from __future__ import annotations

import dataclasses

from .platform import PeerNames

LOCALHOST = "localhost"  # what runs beside an agent, and its checks
NOMAD_REGION = "global"  # the agents' default
SERVER, CLIENT = "server", "client"  # roles of agents


def consul_agents(role: str, datacenter: str) -> str:
    """Consul accepts as a server only a certificate with this name of its servers."""
    return f"{role}.{datacenter}.consul"


def nomad_agents(role: str) -> str:
    """Nomad accepts as a server only a certificate with this name of its servers."""
    return f"{role}.{NOMAD_REGION}.nomad"


def control_plane(environment: str) -> str:
    return _part("xds", environment)


def peer_names(environment: str) -> PeerNames:
    parts = (field.name for field in dataclasses.fields(PeerNames))
    return PeerNames(**{part: _part(part, environment) for part in parts})


def every_name(environment: str) -> tuple[str, ...]:
    """All that an environment's authority must be allowed to sign for."""
    roles = (SERVER, CLIENT)
    return (
        *(consul_agents(role, environment) for role in roles),
        *(nomad_agents(role) for role in roles),
        *dataclasses.astuple(peer_names(environment)),
        control_plane(environment),
        LOCALHOST,
    )


def _part(part: str, environment: str) -> str:
    return f"{part}.{environment}.slipway"
