"""What the plan would buy for a measured load, in words and numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cli.bench.client_watch import ClientLoad
from cli.bench.figures import Figures, Percentiles
from cli.bench.measurement import Measured, Step
from cli.bench.sizing import sizing_of, within
from cli.bench.workload import Prompt, Workload
from cli.environment import Environment
from slipway.config.load import Lengths, Load
from slipway.plan.platform import LatencyGoal
from tests.unit.plan.samples import ROOT

PROMPTS = [Prompt(text="x", max_tokens=1)]
WORKLOAD = Workload(prompts=PROMPTS, source="x")
GOAL = LatencyGoal(ttft_p95_ms=1000, tpot_p95_ms=100)


def times(p95: float) -> Percentiles:
    return Percentiles(p50=p95 / 2, p95=p95, p99=2 * p95, mean=p95 / 2)


def seen(
    clients: int,
    requests_per_s: float,
    *,
    ttft: float = 500,
    tpot: float = 50,
    errors: int = 0,
    input_tokens: float | None = 200.4,
) -> Measured:
    return Measured(
        step=Step(protocol="grpc", clients=clients, requests=10),
        figures=Figures(
            requests=10,
            answered=10 - errors if requests_per_s else 0,
            errors={"HTTP 429": errors} if errors else {},
            said={"HTTP 429": "too many"} if errors else {},
            seconds=1.0,
            ttft_ms=times(ttft),
            tpot_ms=times(tpot),
            requests_per_s=requests_per_s,
            output_tokens_per_s=100 * requests_per_s,
            input_tokens=input_tokens,
            output_tokens=100.0,
        ),
        client=ClientLoad(lag_ms=None, processor=0.1),
        limited="",
        interrupted=False,
        dropped=0,
    )


def sized(
    stack: str, model: str, *measured: Measured, workload: Workload = WORKLOAD
) -> dict[str, Any]:
    environment = Environment(name=stack, checkout=ROOT, cache=Path("/nowhere"))
    found = sizing_of(environment, model, workload, measured, GOAL)
    assert found is not None
    return found


def test_the_most_that_met_the_goal_is_what_is_bought_for() -> None:
    found = sized("aws", "llama-3-1-8b", seen(1, 3), seen(8, 30), seen(32, 90, tpot=101))
    assert found["load"] == {"requests_per_s": 30, "input_tokens": 200, "output_tokens": 100}
    assert found["replicas"] == found["needed"] >= 5
    assert found["usd_per_hour"] > 0
    sentence = found["sentence"]
    assert sentence.startswith(
        "For 30 requests/s of 200 + 100 tokens (the most it served within its goal: 8 clients over"
        " Triton gRPC), the plan would buy"
    )
    assert f"{found['replicas']} replicas on pool {found['pool']}" in sentence
    assert f"{found['usd_per_hour']:,.2f} USD/h (prices of {found['price_date']})" in sentence


def test_a_load_that_never_met_the_goal_is_called_so() -> None:
    found = sized("aws", "llama-3-1-8b", seen(1, 3, ttft=2000), seen(8, 30, ttft=3000))
    assert "30 requests/s" in found["sentence"]
    assert "(the most it served beyond its goal: 8 clients" in found["sentence"]


def test_a_step_with_errors_is_bought_for_only_where_there_is_no_other() -> None:
    refusing = seen(32, 90, errors=9)
    assert sized("aws", "llama-3-1-8b", seen(1, 3), refusing)["load"]["requests_per_s"] == 3
    slow = sized("aws", "llama-3-1-8b", seen(1, 3, ttft=2000), refusing)
    assert "beyond its goal: 1 client" in slow["sentence"]
    assert "among errors: 32 clients" in sized("aws", "llama-3-1-8b", refusing)["sentence"]


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (1.0, "would do, but replicas.min is 5"),
        (2000.0, r"replicas, but replicas.max is 10: raise"),
    ],
)
def test_bounds_of_the_replicas_are_named_where_they_decide(rate: float, said: str) -> None:
    found = sized("aws", "llama-3-1-8b", seen(8, rate))
    assert re.search(said, found["sentence"])
    assert found["needed"] != found["replicas"]


def test_a_trace_is_bought_for_by_its_own_rate() -> None:
    lengths = {"input_tokens": Lengths(p50=200, p95=900), "output_tokens": Lengths(p50=90, p95=90)}
    load = Load(requests_per_s=12.5, **lengths, ramp=None, source="t")
    workload = Workload(prompts=PROMPTS, source="t", load=load)
    found = sized("aws", "llama-3-1-8b", seen(8, 3), workload=workload)
    assert found["load"]["requests_per_s"] == 12.5
    assert found["load"]["output_tokens"] == 90
    assert found["sentence"].startswith("For the trace's 12.5 requests/s, the plan would buy")


def test_without_an_estimate_nothing_is_bought_and_the_way_to_one_is_named() -> None:
    found = sized("dev", "smollm2", seen(8, 3))
    assert (found["replicas"], found["usd_per_hour"]) == (None, None)
    assert "cannot say what to buy" in found["sentence"]
    assert "slipway plan --calibrate -s dev" in found["sentence"]


def test_without_an_answer_there_is_nothing_to_size() -> None:
    environment = Environment(name="aws", checkout=ROOT, cache=Path("/nowhere"))
    assert sizing_of(environment, "llama-3-1-8b", WORKLOAD, [seen(1, 0)], GOAL) is None


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (None, None),
        (LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=None), None),
        (LatencyGoal(ttft_p95_ms=500, tpot_p95_ms=50), True),
        (LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=49), False),
        (LatencyGoal(ttft_p95_ms=499, tpot_p95_ms=None), False),
    ],
)
def test_a_goal_is_met_at_p95(goal: LatencyGoal | None, met: bool | None) -> None:
    assert within(goal, seen(1, 3)) is met


def test_prompts_of_an_unknown_length_are_no_load_of_one_token() -> None:
    found = sized("aws", "llama-3-1-8b", seen(8, 30, input_tokens=None))
    assert set(found) == {"sentence"}
    assert "did not count the tokens of the prompts" in found["sentence"]


@pytest.mark.parametrize("answers_per_s", [0, 3], ids=["no answer", "one answer"])
def test_errors_miss_a_goal(answers_per_s: float) -> None:
    assert within(GOAL, seen(64, answers_per_s, errors=9)) is False
    assert within(None, seen(64, answers_per_s, errors=9)) is None
