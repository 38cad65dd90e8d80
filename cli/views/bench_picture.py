"""The result of `slipway bench` as a picture: times and rates over the number of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.protocols.names import PROTOCOL_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Document = Mapping[str, Any]

# Colours for all kinds of colour vision (Okabe and Ito, 2008); markers tell protocols apart too.
_LOOK = {"http": ("#0072B2", "o"), "grpc": ("#D55E00", "s")}
_GOAL, _ESTIMATE = "#666666", "#009E73"
_SIZE_INCHES = (11.0, 4.2)
_DOTS_PER_INCH = 130


def draw_bench(document: Document, path: Path) -> None:
    """Draws TTFT and TPOT from p50 to p99 with a line at p95, and the tokens per second, as PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - a second to load, and only --png draws

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    simulated = ", simulated" if document["simulated"] else ""
    figure, (ttft, tpot, rate) = plt.subplots(
        1, 3, figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained"
    )
    for protocol in dict.fromkeys(step["protocol"] for step in document["steps"]):
        steps = [step for step in document["steps"] if step["protocol"] == protocol]
        _times(ttft, steps, "ttft_ms", protocol)
        _times(tpot, steps, "tpot_ms", protocol)
        colour, marker = _LOOK[protocol]
        rate.plot(
            [step["clients"] for step in steps],
            [step["output_tokens_per_s"] for step in steps],
            color=colour,
            marker=marker,
            label=PROTOCOL_NAMES[protocol],
        )
    promised = document["promised"]
    for axes, name in ((ttft, "ttft"), (tpot, "tpot")):
        _promise(axes, promised, name)
        axes.set_title(f"{name.upper()} p95 (band: p50 to p99), ms{simulated}", fontsize=10)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    rate.set_title(f"output tokens/s{simulated}", fontsize=10)
    rate.set_ylim(bottom=0)
    clients = sorted({step["clients"] for step in document["steps"]})
    for axes in (ttft, tpot, rate):
        _clients(axes, clients)
        axes.grid(visible=True, color="#dddddd")
        axes.set_axisbelow(True)
        axes.legend(fontsize=8, framealpha=0.9, edgecolor="none")
    figure.suptitle(
        f"{document['model']} on {document['environment']}"
        + (" (simulated engine: figures of no hardware)" if simulated else ""),
        fontsize=11,
    )
    figure.savefig(path)
    plt.close(figure)


def _times(axes: Axes, steps: Sequence[Document], metric: str, protocol: str) -> None:
    """The line is p95, the band from p50 to p99."""
    known = [step for step in steps if step[metric] is not None]
    clients = [step["clients"] for step in known]
    low, middle, high = ([step[metric][s] for step in known] for s in ("p50", "p95", "p99"))
    colour, marker = _LOOK[protocol]
    name = PROTOCOL_NAMES[protocol]
    axes.plot(clients, middle, color=colour, marker=marker, label=name)
    axes.fill_between(clients, low, high, color=colour, alpha=0.2, linewidth=0)


def _promise(axes: Axes, promised: Document, name: str) -> None:
    goal, estimate = promised["goal"][f"{name}_p95_ms"], promised["estimate"]
    if goal is not None:
        axes.axhline(goal, color=_GOAL, linestyle="--", linewidth=1, label=f"goal: p95 {goal:,}")
    if estimate is not None:
        planned = estimate[f"{name}_ms"]
        axes.axhline(
            planned["value"],
            color=_ESTIMATE,
            linestyle=":",
            label=f"plan, mean: {planned['value']:,.3g}",
        )


def _clients(axes: Axes, clients: Sequence[int]) -> None:
    axes.set_xlabel("clients with one request each")
    axes.set_xscale("log", base=2)
    axes.set_xticks(clients, [str(each) for each in clients])
    axes.set_xticks([], minor=True)
