"""A capacity plan as tables: what models need, cost and promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipway.cli.views.tables import plain_table
from slipway.plan.figures import Cost, Figure
from slipway.plan.platform import ModelPlan, PlatformPlan, Pool
from slipway.planner.fleet.layouts import describe
from slipway.planner.reports.differences import Difference
from slipway.planner.reports.explain import Line

_GIB = 2**30
_MARKS = {"estimate": "~", "measured": "=", "exact": "", "declared": ""}
_LEGEND = """\
replicas: needed for the declared load, of those allowed; used: that load over what the minimum
sustains. ~ estimate, with its error; = measured. TTFT and TPOT are those of the mean request; goals
apply to the 95th percentile. --explain MODEL shows the arithmetic with every source."""


def capacity_table(plan: PlatformPlan) -> RenderableType:
    """Models, pools of accelerators, refusals, cost and warnings. Prints nothing itself."""
    return Group(
        _needs(plan),
        _promises(plan),
        *([_pools(plan)] if any(pool.accelerator for pool in plan.pools) else ()),
        *_refusals(plan.models),
        Text(_total(plan.cost)),
        *(Text(f"! {warning}") for warning in _warnings(plan)),
        *([Text(_LEGEND, style="dim")] if any(model.serving for model in plan.models) else ()),
    )


def differences_table(changes: Sequence[str], rows: Iterable[Difference]) -> RenderableType:
    """Before and after of a --what-if."""
    found = list(rows)
    title = f"what if {', '.join(changes)}"
    if not found:
        return Text(f"{title}: nothing in the plan changes")
    table = plain_table(title)
    for heading in ("", "quantity", "before", "after"):
        table.add_column(heading, overflow="fold")
    last = ""
    for row in found:
        subject = "" if row.subject == last else row.subject
        table.add_row(subject, row.quantity, row.before or "-", row.after or "-")
        last = row.subject
    return table


def explain_table(model: str, lines: Iterable[Line]) -> RenderableType:
    """The arithmetic behind one model."""
    table = plain_table(f"{model}: the arithmetic")
    table.add_column("quantity", no_wrap=True)
    table.add_column("result", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold", ratio=1)
    table.add_column("source", overflow="fold", ratio=2, style="dim")
    for line in lines:
        table.add_row(line.quantity, line.result, line.arithmetic, line.source)
    return table


def _needs(plan: PlatformPlan) -> Table:
    table = plain_table(f"{plan.environment}: what the models need")
    table.add_column("model", overflow="fold")
    table.add_column("pool", overflow="fold")
    table.add_column("a replica", no_wrap=True)
    for heading in ("weights/device", "KV tokens", "requests", "replicas"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in plan.models:
        memory, scaling = model.memory, model.stable.scaling
        table.add_row(
            model.name,
            model.pool,
            _replica(model),
            f"{memory.weights_bytes / _GIB:.1f} GiB {model.precision.weights}",
            f"{memory.kv_tokens:,}",
            f"{model.sequences_at_mean_length:,}",
            f"{model.replicas_needed.value:.0f} of {scaling.min_replicas}-{scaling.max_replicas}",
        )
    return table


def _promises(plan: PlatformPlan) -> Table:
    table = plain_table(f"{plan.environment}: what they promise and cost")
    table.add_column("model", overflow="fold")
    for heading in ("TTFT ms", "TPOT ms", "startup", "used", "USD/h", "USD/Mtok"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    for model in plan.models:
        cost, serving, start = model.cost, model.serving, model.cold_start.total_s
        tokens = cost.usd_per_million_output_tokens
        table.add_row(
            model.name,
            _marked(serving.ttft_ms) if serving else "-",
            _marked(serving.tpot_ms) if serving else "-",
            f"{_MARKS[start.basis]}{start.value:.0f} s",
            f"{model.utilization:.0%}" if serving else "-",
            f"{cost.usd_per_hour.value:.2f}",
            "-" if tokens is None else f"{tokens.value:.2f}",
            _goal(model.meets_goal),
        )
    return table


def _replica(model: ModelPlan) -> str:
    if not model.accelerator:
        return "processor"
    return f"{model.layout.devices} {model.accelerator} {describe(model.layout)}"


def _marked(figure: Figure) -> str:
    """ "~81 (65-97)": the value, how it is known, and its range."""
    digits = 0 if figure.value >= 10 else 1
    text = f"{_MARKS[figure.basis]}{figure.value:.{digits}f}"
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({figure.low:.{digits}f}-{figure.high:.{digits}f})"


def _goal(met: bool | None) -> Text:
    if met is None:
        return Text("-")
    return Text("met", style="green") if met else Text("missed", style="red")


def _pools(plan: PlatformPlan) -> Table:
    table = plain_table(f"{plan.environment}: what the pools hold")
    for heading in ("pool", "nodes", "accelerators"):
        table.add_column(heading)
    for heading in ("at minimum", "at maximum", "available", "USD/h"):
        table.add_column(heading, justify="right")
    for pool in plan.pools:
        table.add_row(
            pool.name,
            _nodes(pool),
            f"{pool.accelerators_per_node} {pool.accelerator} a node" if pool.accelerator else "-",
            str(pool.accelerators_used),
            str(pool.accelerators_used_at_most),
            str(pool.accelerators_per_node * pool.nodes_max),
            f"{pool.usd_per_hour.value:.2f}",
        )
    return table


def _nodes(pool: Pool) -> str:
    least, most = pool.nodes_min, pool.nodes_max
    count = str(most) if least == most else f"{least}-{most}"
    return f"{count} {pool.instance or pool.kind}, {pool.market.replace('_', ' ')}"


def _refusals(models: Iterable[ModelPlan]) -> Iterator[Table]:
    rows = [(model, refusal) for model in models for refusal in model.refused]
    if not rows:
        return
    table = plain_table("pools that were not chosen")
    table.add_column("model", no_wrap=True)
    table.add_column("pool", no_wrap=True)
    table.add_column("why", overflow="fold")
    for model, refusal in rows:
        table.add_row(model.name, refusal.pool, "; ".join(refusal.reasons))
    yield table


def _total(cost: Cost) -> str:
    tokens = cost.usd_per_million_output_tokens
    parts = [
        f"{cost.usd_per_hour.value:,.2f} USD/h",
        f"{cost.usd_per_month.value:,.0f} USD/month",
        *([] if tokens is None else [f"{tokens.value:.2f} USD per million output tokens"]),
    ]
    dated = f"; prices of {cost.price_date}" if cost.price_date else ""
    return f"cost  {'  '.join(parts)}  (all nodes at the declared load{dated})\n"


def _warnings(plan: PlatformPlan) -> Iterator[str]:
    yield from plan.warnings
    for model in plan.models:
        for warning in model.warnings:
            yield f"{model.name}: {warning}"
