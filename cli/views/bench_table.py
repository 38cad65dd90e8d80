"""The result of `slipway bench` as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.protocols.names import PROTOCOL_NAMES
from cli.views.tables import Column, DividedTable
from slipway.planner.wording import counted

Document = Mapping[str, Any]

SHARES = ("p50", "p95", "p99")
UNKNOWN = "-"


def bench_table(document: Document) -> RenderableType:
    """A row for each step, then what was promised; below it what else must be known."""
    return Group(
        Text(f"{document['model']} at {document['gateway']}, asked by {document['prompts']}"),
        _figures(document),
        *_notes(document),
    )


def step_name(protocol: str, clients: int) -> str:
    return f"{PROTOCOL_NAMES[protocol]}, {counted(clients, 'client')}"


def _figures(document: Document) -> RenderableType:
    simulated = "simulated" if document["simulated"] else ""
    unit = f"ms, {simulated}" if simulated else "ms"
    goal, promised = document["promised"]["goal"], list(_promised(document["promised"]))
    rows = [[*_row(step, goal)] for step in document["steps"]]
    headings = (
        "answered",
        f"TTFT {' / '.join(SHARES)}\n{unit}",
        f"TPOT {' / '.join(SHARES)}\n{unit}",
        f"requests/s\n{simulated}".rstrip(),
        f"tokens/s\n{simulated}".rstrip(),
        "errors",
    )
    names = [step_name(step["protocol"], step["clients"]) for step in document["steps"]]
    return DividedTable(
        "",
        Column("", [*names, *(name for name, _ in promised)], "left"),
        [
            Column(heading, [row[place] for row in (*rows, *(cells for _, cells in promised))])
            for place, heading in enumerate(headings)
        ],
    )


def _row(step: Document, goal: Document) -> Iterator[str | Text]:
    yield f"{step['answered']} of {step['requests']}"
    yield _times(step["ttft_ms"], ",.0f", goal["ttft_p95_ms"])
    yield _times(step["tpot_ms"], ",.1f", goal["tpot_p95_ms"])
    yield f"{step['requests_per_s']:,.2f}"
    yield f"{step['output_tokens_per_s']:,.1f}"
    yield _errors(sum(step["errors"].values()), within_goal=step["within_goal"])


def _errors(count: int, *, within_goal: bool | None) -> Text:
    misses = count > 0 and within_goal is False
    return Text(f"{count or ''}" + ("!" if misses else ""), "red" if misses else "")


def _times(found: Mapping[str, float] | None, form: str, most_p95: float | None) -> Text:
    """The p95 in red where it misses the goal, and marked for those who see no colours."""
    if found is None:
        return Text(UNKNOWN)
    cell = Text()
    for share in SHARES:
        misses = share == "p95" and most_p95 is not None and found[share] > most_p95
        cell.append(format(found[share], form) + ("!" if misses else ""), "red" if misses else "")
        cell.append(" / " if share != SHARES[-1] else "")
    return cell


def _promised(promised: Document) -> Iterator[tuple[str, Sequence[str]]]:
    """Names and cells of the rows below the measured ones."""
    goal, estimate = promised["goal"], promised["estimate"]
    if any(value is not None for value in goal.values()):
        times = [_goal(goal["ttft_p95_ms"]), _goal(goal["tpot_p95_ms"])]
        yield "goal (slo)", ["", *times, "", "", ""]
    if estimate is not None:
        times = [_estimate(estimate["ttft_ms"], ",.0f"), _estimate(estimate["tpot_ms"], ",.1f")]
        rate = f"{_estimate(estimate['output_tokens_per_s'], ',.0f')} a replica"
        yield f"plan, mean at {estimate['concurrency']} a replica", ["", *times, "", rate, ""]


def _goal(value: int | None) -> str:
    return UNKNOWN if value is None else f"p95 at most {value:,}"


def _estimate(figure: Document, form: str) -> str:
    sign = "~" if figure["basis"] == "estimate" else ""
    bars = ""
    if figure["low"] is not None and figure["high"] is not None:
        bars = f" ({figure['low']:{form}}-{figure['high']:{form}})"
    return f"{sign}{figure['value']:{form}}{bars}"


def _notes(document: Document) -> Iterator[Text]:
    if document["simulated"]:
        yield Text(
            "simulated: a simulated engine answers, so these times and rates are of no hardware",
            style="yellow",
        )
    for step in document["steps"]:
        yield from _notes_on(step)
    if any(step["within_goal"] is False for step in document["steps"]):
        yield Text("! misses the goal of the model's slo")
    if document["sizing"] is not None:
        yield Text(document["sizing"]["sentence"], style="bold")


def _notes_on(step: Document) -> Iterator[Text]:
    name = step_name(step["protocol"], step["clients"])
    if step["interrupted"]:
        dropped = counted(step["dropped"], "request")
        yield Text(f"{name}: interrupted, without {dropped} in flight", style="yellow")
    if step["client"]["limits"]:
        yield Text(
            f"{name}: the client itself limits these figures: {step['client']['limits']}",
            style="yellow",
        )
    for kind, count in sorted(step["errors"].items()):
        said = step["said"][kind]
        yield Text(f"{name}: {count} x {kind}" + (f": {said}" if said else ""), style="red")
