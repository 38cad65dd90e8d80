"""The result of a replay as a table and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table

Fleet = Mapping[str, Any]

# Colours for all kinds of colour vision (Okabe and Ito, 2008); dashes show the line beneath.
_LINES = ({"color": "#0072B2"}, {"color": "#D55E00", "linestyle": "--"})
_SIZE_INCHES = (9.0, 6.0)
_DOTS_PER_INCH = 130


def replay_table(result: Mapping[str, Any], changes: Sequence[str]) -> RenderableType:
    """One column per fleet, and the change if there are two."""
    trace, fleets = result["trace"], result["fleets"]
    table = plain_table()
    table.add_column("")
    for fleet in fleets:
        table.add_column(fleet["name"], justify="right", overflow="fold")
    if len(fleets) == 2:
        table.add_column("change", justify="right", no_wrap=True)
    for name, value_of, form in _ROWS:
        values = [value_of(fleet) for fleet in fleets]
        if any(value is not None for value in values):
            change = [_change(*values)] if len(values) == 2 else []
            table.add_row(name, *(_text(value, form) for value in values), *change)
    return Group(
        Text(_headline(trace)),
        *([Text(f"what if {', '.join(changes)}")] if changes else []),
        *([Text(_skipped(trace), style="yellow")] if trace["skipped"] else []),
        table,
        *(Text(line) for line in _notes(fleets)),
    )


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draws replicas and the TTFT of each minute over time, as PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - a second to load, and only --png draws

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure, (replicas, ttft) = plt.subplots(
        2, 1, sharex=True, figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained"
    )
    for fleet, line in zip(result["fleets"], _LINES, strict=False):
        end = fleet["duration_s"] / 60
        counts = fleet["replicas"]
        replicas.step(
            [*(count["at_s"] / 60 for count in counts), end],
            [*(count["ready"] for count in counts), counts[-1]["ready"]],
            where="post",
            label=f"{fleet['name']}: ready",
            **line,
        )
        minutes = [minute for minute in fleet["minutes"] if minute["ttft_p95_ms"] is not None]
        ttft.plot(
            [minute["at_s"] / 60 + 0.5 for minute in minutes],
            [minute["ttft_p95_ms"] for minute in minutes],
            marker=".",
            label=fleet["name"],
            **line,
        )
    goal = result["fleets"][-1]["goal"]["ttft_ms"]
    if goal is not None:
        ttft.axhline(goal, color="#666666", linestyle=":", label="goal (p95)")
    replicas.set_ylabel("replicas")
    replicas.margins(y=0.3)  # room for the legend
    replicas.set_ylim(bottom=0)
    replicas.yaxis.set_major_locator(MaxNLocator(integer=True))
    ttft.set_ylabel("TTFT p95 of each minute, ms (simulated)")
    ttft.set_yscale("log")
    ttft.set_xlabel("minutes")
    for axes in (replicas, ttft):
        axes.legend(frameon=False)
        axes.grid(visible=True, color="#dddddd")
    figure.savefig(path)
    plt.close(figure)


def _quantile(metric: str, share: str) -> Callable[[Fleet], float | None]:
    return lambda fleet: fleet[metric][share]


def _value(key: str) -> Callable[[Fleet], float | None]:
    return lambda fleet: fleet[key]


_ROWS: tuple[tuple[str, Callable[[Fleet], float | None], str], ...] = (
    *(
        (f"{metric.upper()} {share} ms", _quantile(f"{metric}_ms", share), form)
        for metric, form in (("ttft", ",.0f"), ("tpot", ",.1f"))
        for share in ("p50", "p95", "p99")
    ),
    ("within the goal", _value("goodput_share"), ".2%"),
    ("goodput requests/s", _value("goodput_requests_per_s"), ",.2f"),
    ("output tokens/s", _value("output_tokens_per_s"), ",.0f"),
    ("dropped", lambda fleet: sum(fleet["dropped"].values()), ",d"),
    ("replicas at most", lambda fleet: max(each["ready"] for each in fleet["replicas"]), ",d"),
    ("replica hours", _value("replica_hours"), ",.2f"),
    ("accelerator hours", lambda fleet: fleet["accelerator_hours"] or None, ",.2f"),
    ("cost USD", _value("cost_usd"), ",.2f"),
    ("prompt found in cache", _value("prefix_cache_hit_share"), ".1%"),
    ("preemptions", _value("preemptions"), ",d"),
)


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None or before == after:
        return "" if before == after else "-"
    return "new" if before == 0 else f"{after / before - 1:+.1%}"


def _headline(trace: Mapping[str, Any]) -> str:
    return (
        f"{trace['path']}: {trace['requests']:,} requests in {trace['duration_s'] / 60:,.1f} min,"
        f" {trace['input_tokens'] / trace['requests']:,.0f} prompt and"
        f" {trace['output_tokens'] / trace['requests']:,.0f} answer tokens on average"
    )


def _skipped(trace: Mapping[str, Any]) -> str:
    first = trace["skipped"][0]
    lines = len(trace["skipped"])
    return (
        f"! {lines} broken lines left out, of {lines + trace['requests']:,}; the first is"
        f" {trace['path']}:{first['line']}: {first['reason']}"
    )


def _notes(fleets: Sequence[Fleet]) -> Iterator[str]:
    for fleet in fleets:
        for reason, count in fleet["dropped"].items():
            yield f"! {fleet['name']}: {count:,} dropped: {reason.replace('_', ' ')}"
    for profile, source in {fleet["profile"]: fleet["profile_source"] for fleet in fleets}.items():
        yield f"Simulated, not measured. Step times {profile}: {source}"
