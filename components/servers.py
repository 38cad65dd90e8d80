"""The agents of a cluster's servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

from components import naming
from components.base import SlipwayComponent
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from slipway.plan.platform import PlatformPlan, Server


def servers_in_turn(
    cluster: SlipwayComponent,
    name: str,
    plan: PlatformPlan,
    hosts: HostRealisation,
    *,
    document: Callable[[Server], Mapping[str, Any]],
    secrets: Callable[[Server], pulumi.Output[Mapping[str, Any]]],
    depends_on: Sequence[pulumi.Resource],
) -> list[pulumi.Resource]:
    """One agent after the other, so that the others keep a quorum while one restarts."""
    servers: list[pulumi.Resource] = []
    for server in plan.servers:
        program = HostProgram(
            bundle=plan.node_agent.bundle,
            script="agents.py",
            document=document(server),
            secrets=secret_json(secrets(server)),
            protect=cluster.protected,
        )
        servers.append(
            hosts.programs.run(
                program,
                naming.agent(name, server.name),
                cluster,
                on=server.name,
                depends_on=[*depends_on, *servers[-1:]],
            )
        )
    return servers
