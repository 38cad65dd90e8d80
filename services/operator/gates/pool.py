"""The gate between a pool and its jobs: waits until enough of the pool's nodes accept work.

    nomad_nodes.py apply    document in SLIPWAY_DOCUMENT (schemas/pool-gate.schema.json), the token
                            as JSON on standard input

A node accepts work when Nomad lists it as ready and eligible in its pool and its client has found
its Consul agent: without that agent, no job with a service is placed there. Nodes are counted,
because an elastic pool's names are not known before its nodes register. Nodes that fetch what jobs
run must all have it: each has an introducer write down what it has
(services/aws/introducer/requests.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from program.addresses import beside
from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import exit_code
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

SCHEMA = "pool-gate.schema.json"
SCHEMA_VERSION = 2  # version 1 named the nodes

ABOUT = "/v1/var/slipway/nodes/{host}"
FETCHES = "fetches what jobs run"
ASK_TIMEOUT_S = 1


@dataclass(frozen=True)
class Gate:
    pool: str
    count: int  # nodes that must accept work
    ready_timeout_s: int
    artifacts: str  # the digest of their list; "" where hosts have been given them
    nomad: Api


def read_gate(document: JsonObject, secrets: JsonObject) -> Gate:
    with parsing(SCHEMA):
        named = document["schema_version"] == 1
        return Gate(
            pool=document["pool"],
            count=len(document["nodes"]) if named else document["count"],
            ready_timeout_s=document["ready_timeout_s"],
            artifacts=document.get("artifacts", ""),
            nomad=operators(document["address"], {"X-Nomad-Token": secrets["management_token"]}),
        )


def apply(gate: Gate) -> None:
    took_s = wait_until(f"pool {gate.pool}", lambda: missing(gate), gate.ready_timeout_s)
    say(f"pool {gate.pool}: {gate.count} of {gate.count} nodes accept work, {took_s:.1f} s")


def missing(gate: Gate) -> str | None:
    """How many nodes accept work and what the others lack; None if enough do."""
    try:
        listed = gate.nomad.get("/v1/nodes")
        nodes = living(node for node in listed if node["NodePool"] == gate.pool)
        reasons = {node["Name"]: _not_ready(gate, node) for node in nodes}
    except ApiError as error:
        return str(error)
    waiting = [f"{name} {reason}" for name, reason in sorted(reasons.items()) if reason]
    ready = len(reasons) - len(waiting)
    if ready >= gate.count and FETCHES not in reasons.values():
        return None
    if len(reasons) < gate.count:
        waiting.append(f"{gate.count - len(reasons)} not registered")
    return f"{ready} of {gate.count} nodes accept work; {', '.join(waiting)}"


def living(nodes: Iterable[JsonObject]) -> list[JsonObject]:
    """The nodes without stale entries of machines that lost their data: Nomad lists those as ready
    for a while beside a newer entry with the same name or address. A node that is down has left, or
    will register again."""
    newest_first = sorted(nodes, key=lambda node: int(node["CreateIndex"]), reverse=True)
    names, addresses, found = set[str](), set[str](), list[JsonObject]()
    for node in newest_first:
        if node["Name"] not in names and node["Address"] not in addresses:
            found.append(node)
        names.add(node["Name"])
        addresses.add(node["Address"])
    return [node for node in found if node["Status"] != "down"]


def _not_ready(gate: Gate, node: JsonObject) -> str | None:
    nomad = gate.nomad
    if node["Status"] == "initializing":
        agent = nomad.get(f"/v1/node/{node['ID']}")["HTTPAddr"]
        _hasten_first_heartbeat(beside(nomad.address, agent))
    if node["Status"] != "ready":
        return f"is {node['Status']}"
    if node["SchedulingEligibility"] != "eligible":
        return f"is {node['SchedulingEligibility']}"
    if "consul.version" not in nomad.get(f"/v1/node/{node['ID']}")["Attributes"]:
        return "has not found its Consul agent"
    if gate.artifacts and _artifacts(nomad, node["Name"]) != gate.artifacts:
        return FETCHES
    return None


def _artifacts(nomad: Api, host: str) -> str:
    """The digest of the list that the node says it has; "" if it has not said anything."""
    try:
        return str(nomad.get(ABOUT.format(host=host))["Items"]["artifacts"])
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return ""
        raise


def _hasten_first_heartbeat(address: str) -> None:
    """A new node becomes ready with its first heartbeat, which its agent sends at a random time
    within ten seconds, or as soon as the servers have answered any other request sent through the
    agent (Nomad 1.11, client/client.go: registerAndHeartbeat, client/rpc.go:
    fireRpcRetryWatcher)."""
    agent = operators(address, timeout_s=ASK_TIMEOUT_S)
    with suppress(ApiError):  # then it takes the ten seconds
        agent.get("/v1/status/leader")


def run() -> None:
    expect_apply("nomad_nodes.py")
    apply(read_gate(read_document(SCHEMA_VERSION), read_secrets()))


def main() -> int:
    return exit_code(run)
