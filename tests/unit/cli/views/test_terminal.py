"""What `slipway plan` shows in terminals of several widths.

SLIPWAY_UPDATE_GOLDEN=1 renews tests/golden/terminal/; read the difference before you commit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType

from cli.views.capacity_table import capacity_table
from cli.views.comparison_table import comparison_table
from cli.views.differences_table import differences_table
from cli.views.explain_table import explain_table
from cli.views.fit_table import fit_table
from cli.views.plan_table import plan_table
from cli.views.sweep_table import sweep_table
from cli.views.tables import divided
from slipway.inputs import PlanInputs, load_inputs
from slipway.plan.figures import Layout
from slipway.plan.platform import PlatformPlan
from slipway.planner.reports.comparison import ComparedName, Comparison
from slipway.planner.reports.differences import differences, new_warnings
from slipway.planner.reports.explain import Line, explain
from slipway.planner.verdict import Verdict
from stacks.planning import make_plan
from tests.components.golden import assert_golden_text
from tests.unit.cli.views import figures
from tests.unit.cli.views.figures import WIDTHS, shown
from tests.unit.plan.samples import ROOT, dev_inputs, hosts_inputs
from tests.unit.planner.architectures import MODELS

CHANGE = "models.gemma-3-27b.replicas.max=4"


def what_if() -> RenderableType:
    before = figures.plan(figures.model("gemma-3-27b"))
    after = figures.plan(
        figures.model("gemma-3-27b", kv_tokens=436_206, usd_per_hour=38.5, warnings=("a warning",)),
        figures.model("phi-4"),
    )
    found, warnings = differences(before, after), new_warnings(before, after)
    return differences_table([CHANGE], found, warnings, cost=after.cost)


def fit(verdict: Verdict, cache_gib: float) -> RenderableType:
    model = "llama-3.1-70b"
    return fit_table(model, MODELS[model], figures.fit_answer(verdict, cache_gib))


VIEWS: dict[str, Callable[[], RenderableType]] = {
    "plan": lambda: capacity_table(figures.plan()),
    "sweep": lambda: sweep_table(figures.sweep()),
    "explain": lambda: explain_table("llama-3-1-8b", figures.lines()),
    "what_if": what_if,
    "fit": lambda: fit("fits", 12.0),
    "may_fit": lambda: fit("may_fit", 4.0),
    "does_not_fit": lambda: fit("does_not_fit", -12.0),
    "cannot_run": lambda: fit("cannot_run", 12.0),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_as_reviewed(view: str, width: int) -> None:
    assert_golden_text(f"terminal/{view}-{width}.txt", shown(VIEWS[view](), width))


# Nothing is cut.

names = st.from_regex(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", fullmatch=True)
amounts = st.floats(min_value=0.01, max_value=99_999)


@given(
    width=st.integers(80, 200),
    name=names,
    pool=names,
    tokens=st.integers(0, 10**10),
    times_ms=st.tuples(amounts, amounts),
    usd_per_hour=amounts,
)
def test_no_number_of_a_plan_is_cut_at_any_width_and_of_any_length(
    width: int,
    name: str,
    pool: str,
    tokens: int,
    times_ms: tuple[float, float],
    usd_per_hour: float,
) -> None:
    ttft_ms, tpot_ms = times_ms
    made = figures.model(
        name,
        pool=pool,
        kv_tokens=tokens,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        usd_per_hour=usd_per_hour,
        refused={pool: "costs more"},
    )
    text = shown(capacity_table(figures.plan(made)), width)
    assert "…" not in text
    digits = 0 if ttft_ms >= 10 else 1
    told = {f"{tokens:,}", f"{usd_per_hour:.2f}", f"{ttft_ms:.{digits}f}", "met", "goal"}
    assert told <= set(re.findall(r"[\w.,]*\w", text))


@given(
    width=st.integers(80, 200),
    instance=st.from_regex(r"[a-z][a-z0-9]{1,4}\.[0-9]{1,2}xlarge", fullmatch=True),
    sizes=st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])),
    counts=st.tuples(st.integers(1, 1000), st.integers(1, 1000)),
    prices=st.tuples(amounts, amounts),
    answer_s=amounts,
)
def test_no_number_of_a_sweep_is_cut_at_any_width(
    width: int,
    instance: str,
    sizes: tuple[int, int],
    counts: tuple[int, int],
    prices: tuple[float, float],
    answer_s: float,
) -> None:
    made = figures.point(
        instance,
        Layout(tensor=sizes[0], pipeline=sizes[1]),
        nodes=counts[0],
        replicas=counts[1],
        usd_per_hour=figures.figure(prices[0], "USD/h", error=None),
        share_usd_per_hour=figures.figure(prices[1], "USD/h", error=None),
        answer_s=answer_s,
    )
    text = shown(sweep_table(replace(figures.sweep(), points=(made,))), width)
    assert "…" not in text
    assert f"{counts[0]} x {instance} " in text
    told = {str(counts[1]), *(f"{each:.2f}" for each in prices), f"~{answer_s:.1f}", "met", "goal"}
    assert told <= set(text.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweep_tells_the_share_only_of_what_the_replicas_use_in_part(width: int) -> None:
    whole = figures.figure(13.72, "USD/h", error=None)
    part = figures.point("p4de.24xlarge", Layout(), replicas=2)
    full = replace(part, share_usd_per_hour=whole)
    assert "share" not in shown(sweep_table(replace(figures.sweep(), points=(full,))), width)
    both = shown(sweep_table(replace(figures.sweep(), points=(part, full))), width)
    assert both.split().count("3.43") == 1
    assert "share" in both


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweep_tells_the_date_of_the_oldest_price_in_the_table(width: int) -> None:
    new, old = figures.sweep().points[0], figures.point("g6e.xlarge", Layout())
    old = replace(old, price_date="2026-07-20", price_age_days=129)
    unlisted = replace(old, price_date="2025-01-02", price_age_days=693, pareto=False)
    text = shown(sweep_table(replace(figures.sweep(), points=(new, old, unlisted))), width)
    assert "The oldest price is of 2026-07-20, 129 days old." in " ".join(text.split())


def test_a_sweep_without_a_point_tells_no_price() -> None:
    assert "price" not in shown(sweep_table(replace(figures.sweep(), points=())), 100)


@cache
def inputs_of(environment: str) -> PlanInputs:
    own = {"dev": dev_inputs, "hosts": hosts_inputs}
    return own[environment]() if environment in own else load_inputs(ROOT, environment)


@cache
def planned(environment: str) -> PlatformPlan:
    return make_plan(inputs_of(environment))


def calculations(environment: str) -> Iterator[tuple[str, tuple[Line, ...]]]:
    catalog = inputs_of(environment).catalog
    plan = planned(environment)
    for model in plan.models:
        accelerator = catalog.accelerators.get(model.accelerator)
        fabric = plan.pool(model.pool).fabric
        yield model.name, explain(model, catalog.models[model.architecture], accelerator, fabric)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("environment", ["aws", "metal", "dev", "hosts"])
def test_a_shipped_environment_is_shown_whole(environment: str, width: int) -> None:
    plan = planned(environment)
    text = shown(capacity_table(plan), width)
    if all(pool.hosts for pool in plan.pools):
        text += shown(plan_table(plan), width)
    assert "…" not in text
    for model in plan.models:
        assert f"{model.memory.kv_tokens:,}" in text
        assert f"{model.cost.usd_per_hour.value:.2f}" in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("environment", ["aws", "metal", "dev"])
def test_no_word_of_a_calculation_is_divided(environment: str, width: int) -> None:
    for name, lines in calculations(environment):
        told = words(shown(explain_table(name, lines), width))
        for line in lines:
            assert words(f"{line.arithmetic} {line.result} {line.source}") <= told


def words(text: str) -> set[str]:
    return {word.rstrip(";") for word in text.split()}


def test_columns_are_divided_into_as_few_parts_of_similar_width_as_have_room() -> None:
    assert divided([10, 10, 10, 10], 40) == [slice(0, 4)]
    assert divided([10, 10, 10, 10], 39) == [slice(0, 2), slice(2, 4)]
    assert divided([30, 5, 5, 5], 30) == [slice(0, 1), slice(1, 4)]
    assert divided([50, 5], 30) == [slice(0, 1), slice(1, 2)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_divides_no_word_and_cuts_no_number(width: int) -> None:
    quantities = {"replicas": "", "TTFT": "ms", "output tokens/s of a replica": "tokens/s"}
    rows = [
        Comparison(
            model="llama-3-3-70b-instruct",
            quantity=name,
            unit=unit,
            promised=9e4,
            measured=12_345.6,
        )
        for name, unit in quantities.items()
    ]
    names = [
        ComparedName(
            model="llama-3-3-70b-instruct",
            quantity="device",
            promised="H100-80",
            measured="NVIDIA H100 80GB HBM3",
        )
    ]
    text = shown(comparison_table(rows, names, window_s=600), width)
    expected = {"llama-3-3-70b-instruct", "90,000", "12,346", "tokens/s", "0.14", "ratio"}
    assert expected <= words(text)
    assert "H100-80  NVIDIA H100 80GB HBM3" in text


def test_what_the_network_costs_is_one_line_and_part_of_the_total() -> None:
    plan = make_plan(load_inputs(ROOT, "aws"))
    lines = shown(capacity_table(plan), 200).splitlines()
    (line,) = [line for line in lines if line.startswith("network")]
    assert line.startswith("network  0.11 USD/h, part of the cost")
    assert "1 network load balancer + 9 interface endpoints, without traffic" in line
