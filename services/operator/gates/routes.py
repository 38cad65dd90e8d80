"""The gate before old jobs are removed: waits until every Envoy has acknowledged the routes.

    routes_acknowledged.py apply    document in SLIPWAY_DOCUMENT (schemas/routes-gate.schema.json),
                                    tokens as JSON on standard input

Control planes are found through Consul and asked to which services each connected Envoy sends each
model's requests. A control plane that does not answer, or an Envoy that is not connected, may still
use routes to the old jobs: the gate waits until its deadline and then fails, so that nothing is
removed; the next run continues. Routes of models that are not in the document are ignored, because
those models are about to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

from gates.gateway import answers_of_all, too_few

SCHEMA = "routes-gate.schema.json"
SCHEMA_VERSION = 1

ACCEPTED_ANSWERS = (1,)  # versions of schemas/acknowledged.schema.json


@dataclass(frozen=True)
class Gate:
    routes: dict[str, set[str]]  # model -> the services named in its route
    envoys: int  # how many must be connected
    deadline_s: float
    consul: Api


def read_gate(document: JsonObject, secrets: JsonObject) -> Gate:
    with parsing(SCHEMA):
        return Gate(
            routes={model: set(services) for model, services in document["routes"].items()},
            envoys=document["envoys"],
            deadline_s=document["deadline_s"],
            consul=operators(document["consul"], {"X-Consul-Token": secrets["consul_token"]}),
        )


def apply(gate: Gate) -> None:
    try:
        took_s = wait_until("routes", lambda: missing(gate), gate.deadline_s)
    except HostError as error:
        raise HostError(
            f"{error}\nNothing was removed: the old replicas keep running.\n"
            "fix: slipway status shows the gateway, slipway logs xds its control plane; then"
            " slipway up continues"
        ) from None
    say(f"routes: {gate.envoys} of {gate.envoys} Envoys have acknowledged them, {took_s:.1f} s")


def missing(gate: Gate) -> str | None:
    """What keeps the old jobs from being removed; None if nothing does."""
    try:
        answers = answers_of_all(gate.consul, "/acknowledged", ACCEPTED_ANSWERS)
    except ApiError as error:
        return str(error)
    if few := too_few(answers, gate.envoys):
        return few
    streams = [stream for answer in answers for stream in answer["envoys"]]
    lags = (lag(stream["node"], stream["routes"], gate.routes) for stream in streams)
    return next(filter(None, lags), None)


def lag(
    node: str, acknowledged: dict[str, list[str]] | None, wanted: dict[str, set[str]]
) -> str | None:
    """How an Envoy's acknowledged routes differ from the wanted ones; None if they do not."""
    if acknowledged is None:
        return f"Envoy {node} has not acknowledged its routes yet"
    behind = sorted(
        model for model, services in wanted.items() if set(acknowledged.get(model, ())) != services
    )
    if not behind:
        return None
    services = ", ".join(acknowledged.get(behind[0], ())) or "no service"
    how_many = f"; {len(behind)} models lag" if len(behind) > 1 else ""
    return f"Envoy {node} still sends {behind[0]} to {services}{how_many}"


def run() -> None:
    expect_apply("routes_acknowledged.py")
    apply(read_gate(read_document(SCHEMA_VERSION), read_secrets()))


def main() -> int:
    return exit_code(run)
