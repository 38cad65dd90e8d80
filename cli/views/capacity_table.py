"""A capacity plan as tables: what models need, cost and promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.views.fabric_table import member_variables
from cli.views.tables import Column, DividedTable, plain_table
from slipway.config.base import MOST_REPLICAS
from slipway.plan.aws import AwsPlan
from slipway.plan.draft import AnyModel, AnyPlan
from slipway.plan.figures import Cost, DeviceMemory, Figure
from slipway.plan.platform import Pool
from slipway.planner.fleet.layouts import describe_layout
from slipway.planner.reports.differences import all_warnings
from slipway.planner.reports.price_date import dated

_GIB = 2**30
_MARKS = {"estimate": "~", "measured": "=", "exact": "", "declared": ""}
_LEGEND = """\
replicas: needed for the declared load, of those allowed; used: that load over what the minimum
sustains. ~ estimate, with its error; = measured. TTFT and TPOT are those of the mean request; goals
apply to the 95th percentile. --explain MODEL shows the arithmetic with every source."""


def capacity_table(plan: AnyPlan) -> RenderableType:
    """Models, pools of accelerators, refusals, cost and warnings. Prints nothing itself."""
    return Group(
        _needs(plan),
        _promises(plan),
        *([_pools(plan)] if any(pool.accelerator for pool in plan.pools) else ()),
        *_refusals(plan.models),
        *member_variables(plan),
        *([Text(_network(plan.aws))] if plan.aws else ()),
        Text(_total(plan.cost)),
        *(Text(f"! {warning}") for warning in all_warnings(plan)),
        *([Text(_LEGEND.replace("\n", " "), style="dim")] if _has_estimates(plan) else ()),
    )


def _has_estimates(plan: AnyPlan) -> bool:
    return any(model.serving or model.memory.kv_source for model in plan.models)


def _needs(plan: AnyPlan) -> DividedTable:
    models = plan.models
    return DividedTable(
        f"{plan.environment}: what the models need",
        _names(models),
        [
            Column("pool", [model.pool for model in models], justify="left"),
            Column("a replica", [_replica(model) for model in models], justify="left"),
            Column("replicas", [_replicas(model) for model in models]),
            Column("weights/device", [_weights(model) for model in models]),
            Column("KV tokens", [_kv_tokens(model.memory) for model in models]),
            Column("requests", [f"{model.sequences_at_mean_length:,}" for model in models]),
        ],
    )


def _promises(plan: AnyPlan) -> DividedTable:
    models = plan.models
    served = [model.serving for model in models]
    return DividedTable(
        f"{plan.environment}: what they promise and cost",
        _names(models),
        [
            Column("TTFT ms", [_marked(each.ttft_ms) if each else "-" for each in served]),
            Column("TPOT ms", [_marked(each.tpot_ms) if each else "-" for each in served]),
            Column("goal", [_goal(model.meets_goal) for model in models], justify="left"),
            Column(
                "used", [f"{model.utilization:.0%}" if model.serving else "-" for model in models]
            ),
            Column("startup", [_startup(model) for model in models]),
            Column("USD/h", [f"{model.cost.usd_per_hour.value:.2f}" for model in models]),
            Column("USD/Mtok", [_per_million(model.cost) for model in models]),
        ],
    )


def _names(models: Iterable[AnyModel]) -> Column:
    return Column("model", [model.name for model in models], justify="left")


def _replica(model: AnyModel) -> str:
    hosts = f", {model.replica.nodes} hosts" if model.replica.nodes > 1 else ""
    if not model.accelerator:
        return f"processor{hosts}"
    return f"{model.layout.devices} {model.accelerator} {describe_layout(model.layout)}{hosts}"


def _replicas(model: AnyModel) -> str:
    scaling, needed = model.scaling, round(model.replicas_needed.value)
    count = str(needed) if needed <= MOST_REPLICAS else f">{MOST_REPLICAS}"
    return f"{count} of {scaling.min_replicas}-{scaling.max_replicas}"


def _kv_tokens(memory: DeviceMemory) -> str:
    return f"{_MARKS['measured'] if memory.kv_source else ''}{memory.kv_tokens:,}"


def _weights(model: AnyModel) -> str:
    return f"{model.memory.weights_bytes / _GIB:.1f} GiB {model.precision.weights}"


def _startup(model: AnyModel) -> str:
    start = model.cold_start.total_s
    return f"{_MARKS[start.basis]}{start.value:.0f} s"


def _per_million(cost: Cost) -> str:
    tokens = cost.usd_per_million_output_tokens
    return "-" if tokens is None else f"{tokens.value:.2f}"


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


def _pools(plan: AnyPlan) -> DividedTable:
    pools = plan.pools
    return DividedTable(
        f"{plan.environment}: what the pools hold",
        Column("pool", [pool.name for pool in pools], justify="left"),
        [
            Column("nodes", [_nodes(pool) for pool in pools], justify="left"),
            Column("accelerators", [_devices(pool) for pool in pools], justify="left"),
            Column("at minimum", [str(pool.accelerators_used) for pool in pools]),
            Column("at maximum", [str(pool.accelerators_used_at_most) for pool in pools]),
            Column("available", [str(_available(pool)) for pool in pools]),
            Column("USD/h", [f"{pool.usd_per_hour.value:.2f}" for pool in pools]),
        ],
    )


def _available(pool: Pool) -> int:
    return pool.accelerators_per_node * pool.nodes_max


def _devices(pool: Pool) -> str:
    return f"{pool.accelerators_per_node} {pool.accelerator} a node" if pool.accelerator else "-"


def _nodes(pool: Pool) -> str:
    least, most = pool.nodes_min, pool.nodes_max
    count = str(most) if least == most else f"{least}-{most}"
    return f"{count} {pool.instance or pool.kind}, {pool.market.replace('_', ' ')}"


def _refusals(models: Iterable[AnyModel]) -> Iterator[Table]:
    rows = [(model, refusal) for model in models for refusal in model.refused]
    if not rows:
        return
    table = plain_table("pools that were not chosen")
    for heading in ("model", "pool", "why"):
        table.add_column(heading, overflow="fold")
    for model, refusal in rows:
        table.add_row(model.name, refusal.pool, "; ".join(refusal.reasons))
    yield table


def _network(aws: AwsPlan) -> str:
    network = aws.network_usd_per_hour
    return f"network  {network.value:,.2f} USD/h, part of the cost  ({network.source})"


def _total(cost: Cost) -> str:
    tokens = cost.usd_per_million_output_tokens
    parts = [
        f"{cost.usd_per_hour.value:,.2f} USD/h",
        f"{cost.usd_per_month.value:,.0f} USD/month",
        *([] if tokens is None else [f"{tokens.value:.2f} USD per million output tokens"]),
    ]
    oldest = dated(cost.price_date, cost.price_age_days)
    prices = f"; oldest price of {oldest}" if oldest else ""
    return f"cost  {'  '.join(parts)}  (all nodes at the declared load{prices})\n"
