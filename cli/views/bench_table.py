"""The result of `slipway bench` as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.protocols.names import PROTOCOL_NAMES
from cli.views.tables import plain_table
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


def _figures(document: Document) -> Table:
    unit = "ms, simulated" if document["simulated"] else "ms"
    table = plain_table()
    for heading, justify in (("protocol", "left"), ("clients", "right")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("answered", justify="right", no_wrap=True)
    for name in ("TTFT", "TPOT"):
        table.add_column(f"{name} p50 / p95 / p99\n{unit}", justify="right", no_wrap=True)
    simulated = "\nsimulated" if document["simulated"] else ""
    for name in ("requests/s", "tokens/s"):
        table.add_column(f"{name}{simulated}", justify="right", no_wrap=True)
    table.add_column("errors", overflow="fold")
    for step in document["steps"]:
        table.add_row(*_row(step, document["promised"]["goal"]))
    for row in _promised(document["promised"]):
        table.add_row(*row, style="dim")
    return table


def _row(step: Document, goal: Document) -> Iterator[str | Text]:
    yield PROTOCOL_NAMES[step["protocol"]]
    yield str(step["clients"])
    yield f"{step['answered']} of {step['requests']}"
    yield _times(step["ttft_ms"], ",.0f", goal["ttft_p95_ms"])
    yield _times(step["tpot_ms"], ",.1f", goal["tpot_p95_ms"])
    yield f"{step['requests_per_s']:,.2f}"
    yield f"{step['output_tokens_per_s']:,.1f}"
    yield ", ".join(f"{count} x {kind}" for kind, count in sorted(step["errors"].items()))


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


def _promised(promised: Document) -> Iterator[Sequence[str]]:
    goal, estimate = promised["goal"], promised["estimate"]
    if any(value is not None for value in goal.values()):
        times = [_goal(goal["ttft_p95_ms"]), _goal(goal["tpot_p95_ms"])]
        yield ("goal (slo)", "", "", *times, "", "", "")
    if estimate is not None:
        yield (
            "plan, mean",
            f"{estimate['concurrency']} a replica",
            "",
            _estimate(estimate["ttft_ms"], ",.0f"),
            _estimate(estimate["tpot_ms"], ",.1f"),
            "",
            f"{_estimate(estimate['output_tokens_per_s'], ',.0f')} a replica",
            "",
        )


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
    for kind, said in sorted(step["said"].items()):
        yield Text(f"{name}: {kind}: {said}" if said else f"{name}: {kind}", style="red")
