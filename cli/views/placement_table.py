"""How the gateway chooses a replica of a model, as a table and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.clusters.gateway import Endpoint

Document = Mapping[str, Any]
EQUAL_WEIGHT = 100


def with_envoys_view(document: Document, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document of a control plane, and of each replica what an Envoy sees: `in_use`, and
    `active_requests` over HTTP; both None if it does not know the replica."""
    seen = {endpoint.address: endpoint for endpoint in endpoints}

    def of_envoy(address: str) -> dict[str, Any]:
        endpoint = seen.get(address)
        return {
            "in_use": endpoint and endpoint.healthy,
            "active_requests": endpoint and endpoint.active_requests,
        }

    backends = [
        {
            **backend,
            "replicas": [{**each, **of_envoy(each["address"])} for each in backend["replicas"]],
        }
        for backend in document["backends"]
    ]
    return {**document, "backends": backends}


def placement_table(document: Document, key: str | None) -> RenderableType:
    """All of `with_envoys_view`. Prints nothing itself."""
    return Group(
        Text(f"{document['model']}: {_rule(document['routing'])}", style="bold"),
        *(_replicas(backend) for backend in document["backends"]),
        *(Text(line) for line in _sentences(document, key)),
    )


def _rule(routing: Document) -> str:
    if routing["policy"] != "affinity":
        return "the replica with fewer requests of two that are picked at random"
    header = routing.get("session_header")
    sources = [
        *([f"the header {header}"] if header else []),
        *(["the user in the body"] if routing["key"] in ("user", "prefix") else []),
        *(["the beginning of the prompt"] if routing["key"] == "prefix" else []),
    ]
    return (
        f"requests with one key go to one replica; the key is {', else '.join(sources)}. A replica"
        f" with more than {routing['bound_percent']} % of the mean number of requests in flight is"
        " passed over"
    )


def _replicas(backend: Document) -> Table:
    title = f"{backend['service']} ({backend['weight']} parts of the requests)"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("replica", "address", "in use", "weight", "keys", "requests now"):
        table.add_column(heading)
    for replica in backend["replicas"]:
        share = replica["share"]
        table.add_row(
            escape(replica["replica"] or "unnamed"),
            replica["address"],
            _used(replica),
            f"{replica['weight']} %",
            "" if share is None else f"{share:.1%}",
            "" if replica["active_requests"] is None else str(replica["active_requests"]),
        )
    return table


def _used(replica: Document) -> str:
    held = replica.get("held", False)  # older control planes do not say it
    if not replica["healthy"] and not held:
        return "no: Consul's checks fail"
    if replica["in_use"] is None:
        return "unknown: Envoy does not list it"
    if not replica["in_use"]:
        return "no: Envoy's checks fail, or it has refused requests"
    return "yes, though Consul's checks fail" if held else "yes"


def _sentences(document: Document, key: str | None) -> Iterator[str]:
    for backend in document["backends"]:
        for source, replica in backend["chosen"].items():
            kind = "a session" if source == "session" else "a user"
            yield f"{key!r} as {kind} goes to {replica or 'an unnamed replica'}"
        lowered = [each for each in backend["replicas"] if each["weight"] < EQUAL_WEIGHT]
        for replica in lowered:
            yield (
                f"{replica['replica']} has {replica['weight']} % of an equal share: it is new, or"
                " its engine has reported more waiting requests or a fuller cache than others"
            )
    if key is not None and not any(backend["chosen"] for backend in document["backends"]):
        yield f"{key!r} decides nothing: this model has no keys, or no healthy replica"
