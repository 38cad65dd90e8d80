"""One replica's queue twice: by formulas, and by the simulator's engine.

Both have the same step times, so what differs is only the arithmetic of the queue.
"""

from __future__ import annotations

import importlib
import random
import sys
from dataclasses import dataclass
from statistics import fmean, quantiles
from typing import Any

from slipway.config.calibration import StepTimes
from slipway.planner.engines.adapter import LoadShape
from slipway.planner.engines.vllm.latency.queueing import Replica
from slipway.planner.engines.vllm.latency.replica_times import Requests, measured_replica
from tests.unit.plan.samples import ROOT

MAX_NUM_SEQS = 256
TOKEN_BUDGET = 8192
# h100-bf16-llama-3.1-8b of services/engine_sim/profiles.json
STEP_TIMES = {
    "base_ms": 6.2588,
    "prefill_token_ms": 0.021483,
    "sequence_ms": 0.0081664,
    "context_token_ms": 4.0905e-05,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Means, and the 95th percentile, of all requests but the first quarter."""

    ttft_ms: float
    ttft_p95_ms: float
    tpot_ms: float


def replica_under(load: LoadShape) -> Replica:
    requests = Requests(
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        most_sequences=MAX_NUM_SEQS,
    )
    return measured_replica(StepTimes(**STEP_TIMES), requests, lambda _: None)


def simulate(load: LoadShape, *, requests: int, seed: int = 1) -> Simulated:
    """Poisson arrivals, every request of the same lengths."""
    core = _simulator()

    def sequence(request: int) -> Any:
        first = request * 100_000  # no two prompts begin alike: no prefix is cached
        return core["sequence"].Sequence(
            prompt=range(first, first + load.input_tokens),
            max_tokens=load.output_tokens,
            output_token=lambda index: first + 50_000 + index,
        )

    arrivals, now_ms, seeded = [], 0.0, random.Random(seed)
    for request in range(requests):
        now_ms += 1000 * seeded.expovariate(load.requests_per_s)
        arrivals.append((now_ms, sequence(request)))
    profile = core["step_time"].Profile(
        name="", kv_bytes_per_token=131072, source="", date="", **STEP_TIMES
    )
    limits = core["scheduler"].Limits(
        max_num_seqs=MAX_NUM_SEQS, token_budget=TOKEN_BUDGET, kv_blocks=28_000
    )
    served, _ = core["engine"].serve(limits, profile, arrivals)
    timings = list(served.values())[requests // 4 :]
    ttfts_ms = [each.first_token_ms - each.arrived_ms for each in timings]
    return Simulated(
        ttft_ms=fmean(ttfts_ms),
        ttft_p95_ms=quantiles(ttfts_ms, n=20)[-1],
        tpot_ms=fmean(
            (each.finished_ms - each.first_token_ms) / (load.output_tokens - 1) for each in timings
        ),
    )


def _simulator() -> dict[str, Any]:
    """The modules, by their last name."""
    core = [f"simulator.core.{name}" for name in ("scheduler", "sequence", "step_time")]
    folders = [str(ROOT / "services" / service) for service in ("engine_sim", "fleet_replay")]
    sys.path[:0] = folders
    try:
        modules = [importlib.import_module(name) for name in (*core, "fleet.engine")]
    finally:
        del sys.path[: len(folders)]
    return {module.__name__.rpartition(".")[2]: module for module in modules}
