"""Wait until a pool's nodes take work; the gate between a pool and its jobs.

    nomad_nodes.py apply    document in SLIPWAY_DOCUMENT, the token as JSON on standard input

A node takes work when Nomad has it as ready and eligible in its pool and has found its Consul
agent: without that, every job with a service is filtered from the node.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from document import read_document, read_secrets
from errors import InputError, exit_code
from http_json import Api, ApiError
from waiting import say, wait_until

ASK_TIMEOUT_S = 1


def apply(document: dict[str, Any], secrets: dict[str, Any]) -> None:
    nomad = Api(document["address"], {"X-Nomad-Token": secrets["management_token"]})
    pool, names = document["pool"], document["nodes"]
    took_s = wait_until(
        f"pool {pool}", lambda: missing(nomad, pool, names), document["ready_timeout_s"]
    )
    say(f"pool {pool}: {len(names)} of {len(names)} nodes take work, {took_s:.1f} s")


def missing(nomad: Api, pool: str, names: list[str]) -> str | None:
    """Which nodes do not take work yet and why; None when all do."""
    try:
        nodes = nomad.get("/v1/nodes")
        reasons = {name: _not_ready(nomad, pool, nodes, name) for name in names}
    except ApiError as error:
        return str(error)
    waiting = [f"{name} {reason}" for name, reason in reasons.items() if reason]
    ready = len(names) - len(waiting)
    return f"{ready} of {len(names)} ready; {', '.join(waiting)}" if waiting else None


def _not_ready(nomad: Api, pool: str, nodes: list[dict[str, Any]], name: str) -> str | None:
    """A node that lost its data is listed twice for a while: one good entry counts."""
    entries = [node for node in nodes if node["Name"] == name and node["NodePool"] == pool]
    if not entries:
        return "has not registered"
    reasons = [_entry_not_ready(nomad, node) for node in entries]
    return None if None in reasons else reasons[-1]


def _entry_not_ready(nomad: Api, node: dict[str, Any]) -> str | None:
    if node["Status"] == "initializing":
        _hasten_first_heartbeat(nomad.get(f"/v1/node/{node['ID']}")["HTTPAddr"])
    if node["Status"] != "ready":
        return f"is {node['Status']}"
    if node["SchedulingEligibility"] != "eligible":
        return f"is {node['SchedulingEligibility']}"
    if "consul.version" not in nomad.get(f"/v1/node/{node['ID']}")["Attributes"]:
        return "has not found its Consul agent"
    return None


def _hasten_first_heartbeat(address: str) -> None:
    """A new node is ready from its first heartbeat on, which its agent sends at a random moment of
    ten seconds, or as soon as the servers have answered anything else that goes through the agent
    (Nomad 1.11, client/client.go: registerAndHeartbeat, client/rpc.go: fireRpcRetryWatcher)."""
    agent = Api(f"http://{address}", timeout_s=ASK_TIMEOUT_S)
    with suppress(ApiError):  # then it takes its ten seconds
        agent.get("/v1/status/leader")


def main(arguments: list[str]) -> None:
    if arguments != ["apply"]:
        raise InputError("usage: nomad_nodes.py apply")
    apply(read_document(), read_secrets())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
