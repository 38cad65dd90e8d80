"""The result of `slipway bench` as JSON (schemas/bench.schema.json)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cli.bench.client_watch import MOST_LAG, MOST_PROCESSOR
from cli.bench.measurement import Measured, Measurement
from cli.bench.sizing import within
from slipway.plan.figures import Figure
from slipway.plan.platform import LatencyGoal, ModelPlan

SCHEMA_VERSION = 1


def bench_document(
    measurement: Measurement,
    *,
    environment: str,
    model: str,
    simulated: bool,
    gateway: str,
    source: str,
    planned: ModelPlan | None,
    sizing: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """`planned` is the model as the files plan it now; None where they do not have it."""
    goal = planned.goal if planned else None
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": environment,
        "model": model,
        "simulated": simulated,
        "gateway": gateway,
        "prompts": source,
        "interrupted": measurement.interrupted,
        "failed": measurement.failed.message if measurement.failed else "",
        "steps": [_step(each, goal, simulated=simulated) for each in measurement.measured],
        "promised": _promised(planned),
        "client_limits": {"lag_share": MOST_LAG, "processor_share": MOST_PROCESSOR},
        "sizing": None if sizing is None else dict(sizing),
    }


def _step(measured: Measured, goal: LatencyGoal | None, *, simulated: bool) -> dict[str, Any]:
    lag_ms = measured.client.lag_ms
    return {
        "protocol": measured.step.protocol,
        "clients": measured.step.clients,
        "simulated": simulated,
        **dataclasses.asdict(measured.figures),
        "within_goal": within(goal, measured),
        "interrupted": measured.interrupted,
        "dropped": measured.dropped,
        "client": {
            "lag_ms": None if lag_ms is None else dataclasses.asdict(lag_ms),
            "processor_share": measured.client.processor,
            "limits": measured.limited,
        },
    }


def _promised(planned: ModelPlan | None) -> dict[str, Any]:
    """The goal, and the plan's estimate of the mean request at the planned load."""
    goal, serving = (planned.goal, planned.serving) if planned else (None, None)
    return {
        "goal": {
            "ttft_p95_ms": goal.ttft_p95_ms if goal else None,
            "tpot_p95_ms": goal.tpot_p95_ms if goal else None,
        },
        "estimate": None
        if serving is None
        else {
            "concurrency": serving.concurrency,
            "ttft_ms": _figure(serving.ttft_ms),
            "tpot_ms": _figure(serving.tpot_ms),
            "output_tokens_per_s": _figure(serving.decode_tokens_per_s),
        },
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "basis": figure.basis,
        "source": figure.source,
    }
