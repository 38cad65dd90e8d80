"""The front page of an observation. Its figures are those of `slipway status --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cli.ui.counts import in_flight
from cli.ui.models import model_rows
from cli.ui.observation import Observation
from cli.ui.page import Headline, ModelRow, NodeRow, Page, ReplicaRow, Row, Section, State, Tone
from cli.ui.rows import endpoint_row, job_row, node_row, notices, replica_row, target_row
from cli.ui.wording import ago, figure

Document = Mapping[str, Any]


# Section -> its title, and what is said where it has no rows because nothing answers or exists.
_TITLES = {
    "models": ("Models", "No model is deployed."),
    "replicas": ("Replicas and other allocations", "Nomad has none, or does not answer."),
    "nodes": ("Nodes", "Nomad has none, or does not answer."),
    "jobs": ("Jobs", "Nomad has none, or does not answer."),
    "endpoints": ("Endpoints, as Envoy sees them", "Envoy has none, or does not answer."),
    "targets": ("Targets of Prometheus", "Prometheus has none, or does not answer."),
}


def front_page(seen: Observation, when_silent: str, wanted: str = "") -> Page:
    """`when_silent` is said where Nomad does not answer. `wanted` keeps the rows whose names
    contain it."""
    status = seen.status
    models = sorted(model_rows(seen), key=lambda row: (row.state.tone.urgency, row.name))
    placed = Counter(each["node"] for each in status["replicas"])
    rows: dict[str, Iterable[Row]] = {
        "models": models,
        "replicas": _urgent_first(map(replica_row, status["replicas"])),
        "nodes": _urgent_first(node_row(each, placed[each["name"]]) for each in status["nodes"]),
        "jobs": (job_row(each, seen) for each in status["jobs"]),
        "endpoints": map(endpoint_row, status["endpoints"]),
        "targets": map(target_row, status["targets"]),
    }
    troubles = Section(id="notices", title="", summary="", empty="", rows=tuple(notices(status)))
    return Page(
        headline=_headline(seen, when_silent, models),
        sections=(
            troubles,
            *(_section(name, each, wanted, _summary(name, status)) for name, each in rows.items()),
        ),
        askable=tuple(
            sorted(model.name for model in seen.applied.models if "http" in model.protocols)
        ),
        filter=wanted,
    )


def _urgent_first(rows: Iterable[ReplicaRow | NodeRow]) -> list[ReplicaRow | NodeRow]:
    return sorted(rows, key=lambda row: row.state.tone.urgency)


def _section(section_id: str, rows: Iterable[Row], wanted: str, summary: str) -> Section:
    """An ID is the kind of a row and its name."""
    kept = tuple(row for row in rows if wanted.lower() in row.id.partition("-")[2].lower())
    title, empty = _TITLES[section_id]
    return Section(
        id=section_id,
        title=title,
        summary=summary,
        empty=f"None has “{wanted}” in its name." if wanted else empty,
        rows=kept,
    )


def _summary(section_id: str, status: Document) -> str:
    """Of all of its rows, whatever the filter keeps."""
    rows: Iterable[Document] = status[section_id]
    if isinstance(rows, Mapping):  # the models
        rows = rows.values()
    key, wanted, word = {
        "models": ("ready", True, "ready"),
        "replicas": ("status", "running", "running"),
        "nodes": ("status", "ready", "ready"),
        "jobs": ("status", "running", "running"),
        "endpoints": ("healthy", True, "healthy"),
        "targets": ("up", True, "up"),
    }[section_id]
    values = [row[key] for row in rows]
    return f"{values.count(wanted):,} of {len(values):,} {word}" if values else ""


def _headline(seen: Observation, when_silent: str, models: Sequence[ModelRow]) -> Headline:
    status = seen.status
    ready = sum(model["ready"] for model in status["models"].values())
    tones = {row.state.tone for row in models}
    if not status["running"]:
        state = State(word=when_silent, tone=Tone.BAD)
    elif Tone.BAD in tones or status["troubles"]:
        state = State(word="wants attention", tone=Tone.BAD)
    elif Tone.WARN in tones or status["unreachable"]:
        state = State(word="running, not whole", tone=Tone.WARN)
    else:
        state = State(word="running", tone=Tone.OK)
    flying = sum(in_flight(status["endpoints"]).values())
    tokens = [each.output_tokens_per_s or 0.0 for each in seen.served.values()]
    return Headline(
        environment=status["environment"],
        state=state,
        gateway=status["gateway"]["http"],
        server_name=status["gateway"].get("server_name", ""),
        last_change=_last_change(seen),
        facts=(
            (f"{ready:,} of {len(status['models']):,}", "models ready"),
            (f"{sum(row.running for row in models):,}", "replicas running"),
            (f"{len(status['nodes']):,}", "nodes"),
            (f"{flying:,}", "requests in flight"),
            (figure(sum(tokens) if seen.served else None), "output tokens/s"),
        ),
    )


def _last_change(seen: Observation) -> str:
    """The newest change of a job's spec or count."""
    scaled = [
        (event.at_s, count.job, f"was scaled from {event.previous} to {event.count},")
        for count in seen.counts
        for event in count.events
        if event.count is not None and event.count != event.previous and not event.failed
    ]
    # To scale a job is to submit it, too.
    known = {(job, round(at_s)) for at_s, job, _ in scaled}
    submitted = [
        (at_s, job, "was submitted")
        for job, at_s in seen.submitted.items()
        if not known & {(job, round(at_s) + off) for off in (-1, 0, 1)}
    ]
    newest = max([*scaled, *submitted], default=None)
    if newest is None:
        return ""
    at_s, job, what = newest
    return f"{job} {what} {ago(at_s, seen.at_s)}"
