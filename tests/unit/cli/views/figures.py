"""Plans, sweeps and calculations made by hand, which no constant of the planner changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from io import StringIO

from rich.console import Console, RenderableType

from slipway.plan.figures import (
    ColdStart,
    Cost,
    DeviceMemory,
    Figure,
    Layout,
    Precision,
    Refusal,
    SequenceMemory,
    ServingEstimate,
)
from slipway.plan.platform import ModelPlan, NodeRange, PlatformPlan, Pool
from slipway.planner.fit import Deployment, Fit
from slipway.planner.fleet.sweep import Point, Sweep
from slipway.planner.reports.explain import Line
from slipway.planner.units import MIB
from slipway.planner.verdict import Verdict, what_decides
from tests.unit.plan.samples import GIB, dev_plan

WIDTHS = (80, 100, 160)
TWO_DEVICES = Layout(tensor=2)
FP8 = Precision(weights="fp8")


def shown(table: RenderableType, width: int) -> str:
    """As print_tables writes it into a pipe of this width, without blanks at the ends of lines."""
    written = StringIO()
    Console(file=written, width=width, highlight=False, emoji=False).print(table)
    lines = written.getvalue().splitlines()
    assert all(len(line) <= width for line in lines), max(lines, key=len)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def figure(value: float, unit: str = "ms", *, error: float | None = 0.25) -> Figure:
    """An estimate with this relative error, or a declared value."""
    if error is None:
        return Figure(value=value, unit=unit, basis="declared", source="a test")
    low, high = value * (1 - error), value * (1 + error)
    return Figure(value=value, unit=unit, basis="estimate", source="a test", low=low, high=high)


def cost(usd_per_hour: float) -> Cost:
    return Cost(
        usd_per_hour=figure(usd_per_hour, "USD/h", error=None),
        usd_per_month=figure(730 * usd_per_hour, "USD/month", error=None),
        usd_per_million_output_tokens=figure(usd_per_hour / 12.5, "USD/million tokens", error=None),
        price_date="2026-11-21",
        price_age_days=5,
    )


@cache
def _processor_model() -> ModelPlan:
    return dev_plan().models[0]


def model(
    name: str,
    *,
    pool: str = "h100",
    accelerator: str = "H100-80",
    layout: Layout = TWO_DEVICES,
    precision: Precision = FP8,
    kv_tokens: int = 1_218_742,
    needed: int = 2,
    ttft_ms: float = 297.4,
    tpot_ms: float = 12.15,
    usd_per_hour: float = 19.25,
    meets_goal: bool | None = True,
    refused: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
) -> ModelPlan:
    """The dev environment's first model on accelerators, with other figures."""
    old = _processor_model()
    return replace(
        old,
        name=name,
        releases=(replace(old.stable, job_id=f"model-{name}-3f9c1a"),),
        pool=pool,
        accelerator=accelerator,
        layout=layout,
        precision=precision,
        memory=replace(old.memory, weights_bytes=14 * GIB, kv_tokens=kv_tokens),
        sequences_at_mean_length=128,
        replicas_needed=figure(needed, "replicas"),
        utilization=0.43,
        serving=ServingEstimate(
            concurrency=11,
            ttft_ms=figure(ttft_ms),
            tpot_ms=figure(tpot_ms),
            prefill_tokens_per_s=figure(14_690, "tokens/s"),
            decode_tokens_per_s=figure(599, "tokens/s"),
            requests_per_s=figure(5.57, "requests/s"),
        ),
        meets_goal=meets_goal,
        cold_start=ColdStart(parts={}, total_s=figure(425, "s"), cliff_s=None),
        cost=cost(usd_per_hour),
        refused=tuple(
            Refusal(pool=other, reasons=(why,)) for other, why in (refused or {}).items()
        ),
        warnings=warnings,
    )


def pool(name: str, accelerator: str, instance: str, usd_per_hour: float) -> Pool:
    return replace(
        shared_plan().pools[0],
        name=name,
        kind="aws",
        hosts=(),
        range=NodeRange(min=2, max=16),
        accelerator=accelerator,
        accelerators_per_node=8,
        accelerators_used=20,
        accelerators_used_at_most=22,
        instance=instance,
        market="on_demand",
        usd_per_hour=figure(usd_per_hour, "USD/h", error=None),
    )


shared_plan = cache(dev_plan)


def plan(*models: ModelPlan) -> PlatformPlan:
    """Two models on two pools, unless others are given."""
    return replace(
        shared_plan(),
        environment="aws",
        pools=(
            pool("h100", "H100-80", "p5.48xlarge", 115.5),
            pool("l40s", "L40S", "g6e.12xlarge", 62.94),
        ),
        models=models
        or (
            model("gemma-3-27b", refused={"l40s": "needs 5 replicas to meet the goal, but 2 are"}),
            model(
                "llama-3-1-8b",
                pool="l40s",
                accelerator="L40S",
                layout=Layout(),
                needed=1003,
                tpot_ms=8.55,
                meets_goal=False,
                warnings=("a single request takes most of the goal: TPOT 8.55 of 8.6 ms",),
            ),
        ),
        cost=cost(178.44),
        warnings=("costs 178.44 USD/h; the budget is 100",),
    )


def point(instance: str, layout: Layout, **changes: object) -> Point:
    made = Point(
        instance=instance,
        accelerator="A100-80",
        layout=layout,
        precision=FP8,
        as_declared=True,
        replicas=2,
        nodes=1,
        usd_per_hour=figure(13.72, "USD/h", error=None),
        share_usd_per_hour=figure(3.43, "USD/h", error=None),
        usd_per_million_output_tokens=figure(1.27, "USD/million tokens", error=None),
        price_date="2026-11-09",
        price_age_days=17,
        ttft_ms=figure(102.2),
        tpot_ms=figure(13.74),
        answer_s=3.53,
        meets_goal=True,
        pareto=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def sweep() -> Sweep:
    awq = Precision(weights="awq", kv="fp8")
    return Sweep(
        model="llama-3-1-8b",
        declared=FP8,
        goal_answer_s=13.2,
        points=(
            point("p4de.24xlarge", Layout()),
            point(
                "p6-b200.48xlarge",
                Layout(tensor=8, pipeline=4),
                accelerator="RTX-PRO-6000",
                nodes=8,
                usd_per_hour=figure(1456, "USD/h", error=None),
                share_usd_per_hour=figure(1456, "USD/h", error=None),
                usd_per_million_output_tokens=figure(142.23, "USD/million tokens", error=None),
                meets_goal=False,
            ),
            point(
                "g6e.xlarge",
                Layout(),
                accelerator="L40S",
                precision=awq,
                as_declared=False,
                nodes=2,
                usd_per_hour=figure(3.72, "USD/h", error=None),
                share_usd_per_hour=figure(3.72, "USD/h", error=None),
                usd_per_million_output_tokens=figure(0.34, "USD/million tokens", error=None),
                price_date="2026-07-20",
                price_age_days=129,
            ),
        ),
        refused=(Refusal(pool="g6.xlarge TP2", reasons=("a test",)),),
    )


def lines() -> tuple[Line, ...]:
    roofline = (
        "roofline (planner/engines/vllm/latency/roofline.py); bars hold 90 % of the held-out passes"
    )
    memory = "slipway.planner.engines.vllm.memory"
    return (
        Line(
            quantity="parameters",
            arithmetic="32 layers of 4096, vocabulary 128,256",
            result="8.03 billion",
            source="counted from the facts of catalog/models.yaml (config.json, 2026-11-21)",
        ),
        Line(quantity="  - activations", arithmetic="", result="0.21 GiB", source=memory),
        Line(quantity="  - CUDA graphs", arithmetic="", result="0.57 GiB", source=memory),
        Line(
            quantity="KV tokens of a replica",
            arithmetic="32,829,661,184 B / 131,072 B, x 1 (data parallel)",
            result="250,470",
            source="vllm/v1/worker/gpu_worker.py, determine_available_memory",
        ),
        Line(
            quantity="TTFT",
            arithmetic="83.03 to 145.79",
            result="96.55 ms",
            source="the rest of a step and its own (planner/engines/vllm/latency/queueing.py);"
            f" {roofline}",
            basis="estimate",
        ),
        Line(
            quantity="TPOT",
            arithmetic="14.61 to 24.10",
            result="18.98 ms",
            source=roofline,
            basis="estimate",
        ),
    )


def fit_answer(verdict: Verdict, cache_gib: float) -> Fit:
    """A replica on two devices of 80 GiB with so much left for the KV cache."""
    weights, others = 60 * GIB, (2 * GIB, GIB, GIB // 2, GIB // 8)
    cache = round(cache_gib * GIB)
    sequence = SequenceMemory(block_tokens=16, full_block_bytes=5 * MIB)
    memory = DeviceMemory(
        device_bytes=79 * GIB,
        usable_bytes=weights + sum(others) + cache,
        weights_bytes=weights,
        weights_error_bytes=2 * GIB,
        engine_error_bytes=GIB,
        activations_bytes=others[0],
        graphs_bytes=others[1],
        communication_bytes=others[2],
        runtime_bytes=others[3],
        adapters_bytes=0,
        kv_cache_bytes=cache,
        kv_bytes_per_token=5 * MIB // 16,
        sequence=sequence,
        longest_sequence_bytes=sequence.held_bytes(8192),
        kv_tokens=cache // (5 * MIB // 16),
        max_sequences_at_full_length=max(0, cache) // sequence.held_bytes(8192),
    )
    deployment = Deployment(accelerator="H100-80", layout=Layout(tensor=2), max_len=8192)
    reasons = {
        "fits": (),
        "may_fit": (what_decides(memory, 8192),),
        "does_not_fit": ("weights take 60.0 GiB and the engine 3.6 GiB: 12.0 GiB short",),
        "cannot_run": ("7 attention heads cannot be divided by 2",),
    }
    return Fit(
        deployment=deployment,
        verdict=verdict,
        reasons=reasons[verdict],
        suggestions=() if verdict == "fits" else ("--count 4 --tp 4: 457,401 tokens of KV cache",),
        max_len=8192,
        kv_bytes_per_token=5 * MIB // 8,
        kv_tokens=memory.kv_tokens,
        max_concurrent_requests=max(1, memory.max_sequences_at_full_length),
        memory=memory,
    )
