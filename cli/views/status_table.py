"""A status document as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.views.trouble_line import trouble_line

Document = dict[str, Any]


def status_table(document: Document, when_silent: str) -> RenderableType:
    """All of `snapshot.take_snapshot`; `when_silent` is said of an environment whose Nomad does not
    answer. Prints nothing itself."""
    parts: list[RenderableType] = [_headline(document, when_silent), _models(document)]
    if document["nodes"]:
        parts += [_nodes(document), _jobs(document), _replicas(document)]
    if document["groups"]:
        parts.append(_groups(document))
    if document["endpoints"]:
        parts.append(_endpoints(document))
    if document["targets"]:
        parts.append(_targets(document))
    if document["running"] and (reason := document["autoscaler_blind"]):
        text = f"the autoscaler cannot see the load, so all counts stay as they are: {reason}"
        parts.append(Text(text, style="yellow"))
    parts += [trouble_line(trouble) for trouble in document["troubles"]]
    parts += [
        Text(f"{part} does not answer: {reason}", style="yellow")
        for part, reason in document["unreachable"].items()
    ]
    return Group(*parts)


def _headline(document: Document, when_silent: str) -> Text:
    name, http = document["environment"], document["gateway"]["http"]
    if document["running"]:
        return Text(f"{name}: running   gateway {http}  (OpenAI HTTP, Triton gRPC)", style="bold")
    return Text(f"{name}: {when_silent}", style="bold red")


def _models(document: Document) -> Table:
    rows = (
        (name, _yes(model["ready"]), _yes(model["acknowledged"]))
        for name, model in sorted(document["models"].items())
    )
    return _table("models", ("model", "ready", "route in Envoy"), rows)


def _nodes(document: Document) -> Table:
    rows = (
        (n["name"], n["pool"], n["address"], n["status"], _yes(n["eligible"]))
        for n in document["nodes"]
    )
    return _table("nodes", ("node", "pool", "address", "status", "takes work"), rows)


def _jobs(document: Document) -> Table:
    rows = ((j["id"], j["status"], str(j["running"]), str(j["waiting"])) for j in document["jobs"])
    return _table("jobs", ("job", "status", "running", "starting or queued"), rows)


def _replicas(document: Document) -> Table:
    rows = (
        (r["name"], r["node"], r["status"], str(r["restarts"]), r["allocation"][:8], r["said"])
        for r in document["replicas"]
    )
    headings = ("replica", "node", "status", "restarts", "allocation", "last event")
    return _table("replicas", headings, rows)


def _groups(document: Document) -> Table:
    """A line a job: of a replica that is not whole, who is missing."""
    jobs = dict.fromkeys(group["job"] for group in document["groups"])
    rows = (
        _groups_of(job, [group for group in document["groups"] if group["job"] == job])
        for job in jobs
    )
    headings = ("job", "hosts each", "serve", "of wanted", "not whole")
    return _table("replicas over several hosts", headings, rows)


def _groups_of(job: str, groups: list[Document]) -> tuple[str, ...]:
    serves = [group["serves"] for group in groups]
    serve = "?" if None in serves else str(sum(serves))  # Envoy does not answer
    wanted = sum(group["wanted"] for group in groups)
    lacks = "; ".join(filter(None, map(_lack, groups)))
    return job, str(len(groups[0]["hosts"])), serve, str(wanted), lacks


def _lack(group: Document) -> str:
    if not group["missing"]:
        return ""
    number, hosts = group["number"], len(group["hosts"])
    said = ", ".join(f"rank {each['rank']} {each['said']}" for each in group["missing"])
    if group["wanted"]:
        return f"replica {number}: {said}"
    mends = f"nomad job scale {group['job']} {hosts * (number + 1)}"
    return f"replica {number}, beyond the count: {said}; {mends} mends it"


def _endpoints(document: Document) -> Table:
    rows = (
        (e["cluster"], e["address"], _yes(e["healthy"]), str(e["active_requests"]))
        for e in document["endpoints"]
    )
    return _table(
        "endpoints, as Envoy sees them", ("cluster", "address", "healthy", "active"), rows
    )


def _targets(document: Document) -> Table:
    rows = ((t["service"], t["address"], _yes(t["up"]), t["error"]) for t in document["targets"])
    return _table("targets of Prometheus", ("service", "address", "up", "error"), rows)


def _yes(value: bool) -> str:
    return "[green]yes[/green]" if value else "[red]no[/red]"


def _table(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(*headings, title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(cell if cell.startswith("[") else escape(cell) for cell in row))
    return table
