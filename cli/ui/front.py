"""The front page of an observation. Its figures are those of `slipway status --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cli.applied import AppliedModel
from cli.clusters.served import Served
from cli.ui.counts import in_flight, why
from cli.ui.observation import JobCount, Observation
from cli.ui.page import (
    EndpointRow,
    Headline,
    JobRow,
    Measure,
    ModelRow,
    NodeRow,
    Notice,
    Page,
    ReplicaRow,
    Row,
    Section,
    State,
    TargetRow,
    Tone,
)
from cli.ui.wording import NOTHING, ago, bounds, figure, milliseconds

Document = Mapping[str, Any]

OK, WARN, BAD, QUIET = Tone.OK, Tone.WARN, Tone.BAD, Tone.QUIET
# Nomad's words for allocations, jobs and nodes.
_TONES = {
    "running": OK,
    "ready": OK,
    "complete": QUIET,
    "dead": QUIET,
    "initializing": WARN,
    "pending": WARN,
    "failed": BAD,
    "lost": BAD,
    "down": BAD,
    "disconnected": BAD,
    "unknown": BAD,
}


def front_page(seen: Observation, when_silent: str, wanted: str = "") -> Page:
    """`when_silent` is said where Nomad does not answer. `wanted` keeps the rows whose names
    contain it."""
    status = seen.status
    models = sorted(_models(seen), key=lambda row: (row.state.tone.urgency, row.name))
    replicas = sorted(map(_replica, status["replicas"]), key=lambda row: row.state.tone.urgency)
    placed = Counter(each["node"] for each in status["replicas"])
    nodes = sorted(
        (_node(node, placed[node["name"]]) for node in status["nodes"]),
        key=lambda row: row.state.tone.urgency,
    )
    silent = "Nomad does not answer." if "nomad" in status["unreachable"] else ""
    return Page(
        headline=_headline(seen, when_silent, models),
        sections=(
            Section(id="notices", title="", summary="", empty="", rows=tuple(_notices(status))),
            _section("models", "Models", models, wanted, _ready(status), "No model is deployed."),
            _section(
                "replicas",
                "Replicas and other allocations",
                replicas,
                wanted,
                _running(status["replicas"], "status"),
                silent or "Nothing runs.",
            ),
            _section(
                "nodes",
                "Nodes",
                nodes,
                wanted,
                _counted(status["nodes"], "status", "ready"),
                silent or "No node has joined.",
            ),
            _section(
                "jobs",
                "Jobs",
                [_job(job, seen) for job in status["jobs"]],
                wanted,
                _counted(status["jobs"], "status", "running"),
                silent or "There is no job.",
            ),
            _section(
                "endpoints",
                "Endpoints, as Envoy sees them",
                [_endpoint(each) for each in status["endpoints"]],
                wanted,
                _flagged(status["endpoints"], "healthy", "healthy"),
                "Envoy does not answer, or has no endpoint.",
            ),
            _section(
                "targets",
                "Targets of Prometheus",
                [_target(each) for each in status["targets"]],
                wanted,
                _flagged(status["targets"], "up", "up"),
                "Prometheus does not answer, or has no target.",
            ),
        ),
        askable=tuple(
            sorted(model.name for model in seen.applied.models if "http" in model.protocols)
        ),
        filter=wanted,
    )


def _section(  # noqa: PLR0917  (a line each above)
    section_id: str, title: str, rows: Iterable[Row], wanted: str, summary: str, empty: str
) -> Section:
    kept = tuple(row for row in rows if wanted.lower() in row.id.lower())
    return Section(
        id=section_id,
        title=title,
        summary=summary,
        empty=f"None has “{wanted}” in its name." if wanted and not kept else empty,
        rows=kept,
    )


def _headline(seen: Observation, when_silent: str, models: Iterable[ModelRow]) -> Headline:
    status = seen.status
    ready = sum(model["ready"] for model in status["models"].values())
    tones = {row.state.tone for row in models}
    if not status["running"]:
        state = State(word=when_silent, tone=BAD)
    elif BAD in tones or status["troubles"]:
        state = State(word="wants attention", tone=BAD)
    elif WARN in tones or status["unreachable"]:
        state = State(word="running, not whole", tone=WARN)
    else:
        state = State(word="running", tone=OK)
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
            (f"{_running_models(status):,}", "replicas running"),
            (f"{len(status['nodes']):,}", "nodes"),
            (f"{flying:,}", "requests in flight"),
            (figure(sum(tokens) if seen.served else None), "output tokens/s"),
        ),
    )


def _last_change(seen: Observation) -> str:
    """The newest change of a job's spec or count."""
    changes = [(at_s, f"{job} was submitted") for job, at_s in seen.submitted.items()]
    changes += [
        (event.at_s, f"{count.job} scaled {event.previous} → {event.count}")
        for count in seen.counts
        for event in count.events
        if event.count is not None and event.count != event.previous and not event.failed
    ]
    if not changes:
        return ""
    at_s, what = max(changes)
    return f"{what} {ago(at_s, seen.at_s)}"


def _models(seen: Observation) -> Iterator[ModelRow]:
    status = seen.status
    sees_envoy = "envoy" not in status["unreachable"]
    flying = in_flight(status["endpoints"])
    running = _allocations_by_job(status)
    for model in seen.applied.models:
        told = status["models"][model.name]
        counts = [each for each in seen.counts if each.model == model.name]
        yield _model(
            model,
            told,
            counts,
            running=sum(running[count.job] for count in counts),
            flying=flying[model.name] if sees_envoy else None,
            measured=seen.served.get(model.name, Served()),
            seen=seen,
        )


def _model(
    model: AppliedModel,
    told: Document,
    counts: list[JobCount],
    *,
    running: int,
    flying: int | None,
    measured: Served,
    seen: Observation,
) -> ModelRow:
    wanted = sum(count.wanted for count in counts)
    blind = bool(seen.status["autoscaler_blind"])
    scaling = model.scaling
    return ModelRow(
        id=f"model-{model.name}",
        name=model.name,
        aliases=", ".join(model.aliases),
        state=_state_of_model(told, seen.status, running=running, wanted=wanted),
        ready=told["ready"],
        routed=told["acknowledged"],
        replicas=f"{running // model.members} of {wanted // model.members}" if counts else NOTHING,
        bounds=bounds(scaling.min_replicas, scaling.max_replicas) if scaling else "",
        why=why(model, counts, flying, seen.at_s, blind=blind) if seen.status["running"] else "",
        in_flight=flying,
        requests_per_s=figure(measured.requests_per_s),
        tokens_per_s=figure(measured.output_tokens_per_s),
        ttft=_measure(measured.ttft_p95_ms, model.goal.ttft_p95_ms),
        tpot=_measure(measured.tpot_p95_ms, model.goal.tpot_p95_ms),
    )


def _state_of_model(told: Document, status: Document, *, running: int, wanted: int) -> State:
    if "xds" in status["unreachable"]:
        return State(word="unknown", tone=WARN)
    if told["ready"] and told["acknowledged"]:
        return State(word="serves", tone=OK) if running >= wanted else _SHORT
    if told["ready"]:
        return State(word="ready, not routed", tone=WARN)
    if running < wanted:
        return State(word="starting", tone=WARN)
    return State(word="does not serve", tone=BAD)


_SHORT = State(word="serves, short of replicas", tone=WARN)


def _measure(value_ms: float | None, goal_ms: int | None) -> Measure:
    goal = f"≤ {milliseconds(goal_ms)}" if goal_ms is not None else ""
    if value_ms is None or goal_ms is None:
        return Measure(text=milliseconds(value_ms), goal=goal)
    return Measure(text=milliseconds(value_ms), goal=goal, tone=OK if value_ms <= goal_ms else BAD)


def _allocations_by_job(status: Document) -> Counter[str]:
    return Counter(each["job"] for each in status["replicas"] if each["status"] == "running")


def _running_models(status: Document) -> int:
    return sum(
        each["status"] == "running" and each["job"].startswith("model-")
        for each in status["replicas"]
    )


def _replica(replica: Document) -> ReplicaRow:
    return ReplicaRow(
        id=f"replica-{replica['name']}-{replica['allocation'][:8]}",
        name=replica["name"],
        job=replica["job"],
        node=replica["node"],
        allocation=replica["allocation"],
        state=_state(replica["status"]),
        restarts=replica["restarts"],
        said=replica["said"],
    )


def _node(node: Document, placed: int) -> NodeRow:
    state = _state(node["status"])
    if state.tone is OK and not node["eligible"]:
        state = State(word=state.word, tone=WARN)
    return NodeRow(
        id=f"node-{node['name']}-{node['address']}",
        name=node["name"],
        pool=node["pool"],
        address=node["address"],
        state=state,
        takes_work=node["eligible"],
        replicas=placed,
    )


def _job(job: Document, seen: Observation) -> JobRow:
    state = _state(job["status"])
    if state.tone is OK and job["waiting"]:
        state = State(word=state.word, tone=WARN)
    submitted_s = seen.submitted.get(job["id"])
    return JobRow(
        id=f"job-{job['id']}",
        name=job["id"],
        state=state,
        running=job["running"],
        waiting=job["waiting"],
        changed=ago(submitted_s, seen.at_s) if submitted_s is not None else "",
    )


def _endpoint(endpoint: Document) -> EndpointRow:
    healthy = endpoint["healthy"]
    return EndpointRow(
        id=f"endpoint-{endpoint['cluster']}-{endpoint['address']}",
        cluster=endpoint["cluster"],
        address=endpoint["address"],
        state=State(word="healthy", tone=OK) if healthy else State(word="not healthy", tone=BAD),
        active=endpoint["active_requests"],
    )


def _target(target: Document) -> TargetRow:
    return TargetRow(
        id=f"target-{target['service']}-{target['address']}",
        service=target["service"],
        address=target["address"],
        state=State(word="up", tone=OK) if target["up"] else State(word="down", tone=BAD),
        error=target["error"],
    )


def _notices(status: Document) -> Iterator[Notice]:
    for trouble in status["troubles"]:
        yield Notice(
            id=f"trouble-{trouble['host']}-{trouble['what']}",
            text=f"{trouble['host']} {trouble['what']}",
            fix=trouble["fix"],
            tone=BAD,
        )
    for group in status["groups"]:
        if group["missing"]:
            yield _incomplete(group)
    for part, reason in status["unreachable"].items():
        yield Notice(
            id=f"silent-{part}", text=f"{part} does not answer: {reason}", fix="", tone=BAD
        )
    if status["running"] and (reason := status["autoscaler_blind"]):
        text = f"The autoscaler cannot see the load, so all counts stay as they are: {reason}"
        yield Notice(id="blind", text=text, fix="", tone=WARN)


def _incomplete(group: Document) -> Notice:
    """A replica over several hosts that lacks some of them."""
    lacks = ", ".join(f"rank {each['rank']} {each['said']}" for each in group["missing"])
    return Notice(
        id=f"group-{group['job']}-{group['number']}",
        text=f"{group['job']}, replica {group['number']}: {lacks}",
        fix="",
        tone=WARN,
    )


def _state(word: str) -> State:
    return State(word=word, tone=_TONES.get(word, QUIET))


def _ready(status: Document) -> str:
    models = status["models"].values()
    return f"{sum(model['ready'] for model in models):,} of {len(models):,} ready"


def _running(rows: Iterable[Document], key: str) -> str:
    return _counted(rows, key, "running")


def _counted(rows: Iterable[Document], key: str, word: str) -> str:
    rows = list(rows)
    return f"{sum(row[key] == word for row in rows):,} of {len(rows):,} {word}" if rows else ""


def _flagged(rows: Iterable[Document], key: str, word: str) -> str:
    rows = list(rows)
    return f"{sum(row[key] for row in rows):,} of {len(rows):,} {word}" if rows else ""
