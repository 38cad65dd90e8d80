"""The program that replaces the gossip key of a running cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi

from components import seeds
from components.base import SlipwayComponent
from components.hosts.program import HostProgram, Hosts, secret_json
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import PlatformPlan

SCHEMA_VERSION = 1  # of the document and its secrets
TIMEOUT_S = 120


def replaced_key(
    cluster: SlipwayComponent,
    name: str,
    plan: PlatformPlan,
    programs: Hosts,
    api: Endpoint,
    *,
    seed: pulumi.Output[str],
    token: pulumi.Output[str],
    depends_on: Sequence[pulumi.Resource],
) -> list[pulumi.Resource]:
    """For the servers to depend on; nothing for the first key, with which every cluster begins.
    `name`: "consul" or "nomad"."""
    generation = plan.security.gossip_key
    if generation == 1:
        return []
    program = HostProgram(
        bundle=plan.operator.bundle,
        script="rotate_gossip.py",
        document={
            "schema_version": SCHEMA_VERSION,
            "system": name,
            "servers": [server.url for server in plan.servers_of(api)],
            "generation": generation,
            "timeout_s": TIMEOUT_S,
        },
        secrets=secret_json(
            pulumi.Output.all(seed=seed, token=token).apply(
                lambda known: _secrets(known["seed"], known["token"], generation)
            )
        ),
        removes=False,
    )
    return [programs.run(program, f"{name}-gossip-key", cluster, depends_on=depends_on)]


def _secrets(seed: str, token: str, generation: int) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "management_token": token,
        "key": seeds.gossip_key(seed, generation),
    }
