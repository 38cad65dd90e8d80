"""A gate of the gateway: waits until a job of one of its hosts serves.

    job_serves.py apply    document in SLIPWAY_DOCUMENT (schemas/gateway-job-gate.schema.json),
                           tokens as JSON on standard input

The next host waits for the Envoy and for the job that gives this host the shared address, which
itself waits for the control plane. A job serves when the allocation of its newest version passes
its checks in Consul. Nothing waits for one whose node is gone or takes no work: Nomad places
nothing there, and clients have been with the others since.
"""

from __future__ import annotations

from dataclasses import dataclass

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

from gates.pool import living

SCHEMA = "gateway-job-gate.schema.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Gate:
    job: str
    service: str  # in Consul
    node: str
    deadline_s: float
    nomad: Api
    consul: Api


def read_gate(document: JsonObject, secrets: JsonObject) -> Gate:
    with parsing(SCHEMA):
        return Gate(
            job=document["job"],
            service=document["service"],
            node=document["node"],
            deadline_s=document["deadline_s"],
            nomad=operators(document["nomad"], {"X-Nomad-Token": secrets["nomad_token"]}),
            consul=operators(document["consul"], {"X-Consul-Token": secrets["consul_token"]}),
        )


def apply(gate: Gate) -> None:
    try:
        took_s = wait_until(gate.job, lambda: missing(gate), gate.deadline_s)
    except HostError as error:
        raise HostError(
            f"{error}\nWhat waits for it is unchanged, and serves.\n"
            f"fix: slipway logs {gate.job} shows its log; then slipway up continues"
        ) from None
    say(f"{gate.job}: done, {took_s:.1f} s")


def missing(gate: Gate) -> str | None:
    """What the job lacks; None if it serves, or its node takes no work."""
    try:
        if reason := _out_of_work(gate):
            say(f"{gate.job}: {gate.node} {reason}; nothing waits for it")
            return None
        version = gate.nomad.get(f"/v1/job/{gate.job}")["Version"]
        allocations = gate.nomad.get(f"/v1/job/{gate.job}/allocations")
        entries = gate.consul.get(f"/v1/health/service/{gate.service}?passing=1")
    except ApiError as error:
        return str(error)
    newest = [
        each
        for each in allocations
        if each["JobVersion"] == version and each["DesiredStatus"] == "run"
    ]
    if not newest:
        return f"Nomad has not placed it on {gate.node} yet"
    # Nomad's name of a registration contains the allocation.
    passing = [entry["Service"]["ID"] for entry in entries]
    if not any(each["ID"] in name for each in newest for name in passing):
        return f"it is {newest[0]['ClientStatus']} on {gate.node}, and does not pass its checks yet"
    return None


def _out_of_work(gate: Gate) -> str | None:
    """Why Nomad places nothing on the node. The pool's gate has seen it, so a node that is not
    listed has been forgotten."""
    nodes = living(node for node in gate.nomad.get("/v1/nodes") if node["Name"] == gate.node)
    if not nodes:
        return "is down or gone"
    if all(node["SchedulingEligibility"] != "eligible" for node in nodes):
        return "takes no work"
    return None


def run() -> None:
    expect_apply("job_serves.py")
    apply(read_gate(read_document(SCHEMA_VERSION), read_secrets()))


def main() -> int:
    return exit_code(run)
