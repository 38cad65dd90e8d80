"""The time to plan many models on many pools, and to sweep one model, as a markdown table.

    .venv/bin/python bench/planning.py [--models 100] [--pools 20]

Every model of the plan may run on every pool, in any layout that the planner considers; the models
differ in architecture, precision and load, so that little work repeats. Reads only the catalog. The
sweep tries what `slipway plan --sweep` tries for one model, which must be at least as many
configurations as the bar is for. Exits with 1 over a bar.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from bench.machine import loop_factor, measured_on  # noqa: E402
from slipway.architectures.parameters import count  # noqa: E402
from slipway.config.artifacts import read_artifacts  # noqa: E402
from slipway.config.catalog import Catalog, load_catalog  # noqa: E402
from slipway.config.document import Origin  # noqa: E402
from slipway.config.environment import parse_environment  # noqa: E402
from slipway.config.fleet import FleetSettings  # noqa: E402
from slipway.config.machine import read_machine  # noqa: E402
from slipway.config.model import Model, parse_model  # noqa: E402
from slipway.inputs import PlanInputs  # noqa: E402
from slipway.planner.fleet.demand import Demand, plan_demand  # noqa: E402
from slipway.planner.fleet.sweep import sweep  # noqa: E402
from stacks.planning import make_plan  # noqa: E402

PLAN_BAR_S, SWEEP_BAR_S = 2.0, 1.0
SWEEP_CONFIGURATIONS = 1_008
MAX_MODEL_LEN = 4_096
T = TypeVar("T")


def many(catalog: Catalog, models: int, pools: int) -> PlanInputs:
    """Models of every architecture, which may run anywhere, and pools of every instance."""
    priced = [name for name, each in catalog.instances.items() if each.usd_per_hour]
    named = {
        f"pool-{k}": {
            "kind": "aws",
            "instance": priced[k % len(priced)],
            "nodes": {"min": 0, "max": 1000},
        }
        for k in range(pools)
    }
    parsed = {f"model-{k}": _model(catalog, k) for k in range(models)}
    values = {
        "target": "aws",
        "network": {"cidr": "10.0.0.0/8"},
        "pools": named,
        "gateway": {"pool": "pool-0"},
        "models": {
            name: {"pools": list(named), "replicas": {"min": 1, "max": 4}} for name in parsed
        },
    }
    return PlanInputs(
        environment=parse_environment(values, name="bench", source="Pulumi.bench.yaml"),
        models=parsed,
        catalog=catalog,
        artifacts=read_artifacts(ROOT),
        machine=read_machine(),
    )


def _model(catalog: Catalog, k: int) -> Model:
    names = sorted(
        name
        for name, each in catalog.models.items()
        if count(each).total < 80e9 and each.context >= MAX_MODEL_LEN
    )
    values: dict[str, Any] = {
        "name": f"model-{k}",
        "source": {"s3": f"s3://models/model-{k}/", "revision": "1"},
        "engine": {
            "kind": "vllm",
            "architecture": names[k % len(names)],
            "max_model_len": MAX_MODEL_LEN,
            "max_num_seqs": 64,
        },
        "slo": {"ttft_p95_ms": 2000, "tpot_p95_ms": 60},
        "load": {
            "requests_per_s": 0.5 + 0.1 * k,
            "input_tokens": 300 + 7 * k,
            "output_tokens": 100 + 3 * k,
        },
    }
    return parse_model(values, origin=Origin(source=f"models/model-{k}.yaml"))


def demand(inputs: PlanInputs, name: str) -> Demand:
    settings = inputs.environment.settings
    if not isinstance(settings, FleetSettings):
        raise TypeError("the bench plans a fleet")
    made = plan_demand(inputs.models[name], settings.models[name], inputs.catalog.models, {})
    if not isinstance(made, Demand):
        raise TypeError(made)
    return made


def timed(work: Callable[[], T]) -> tuple[float, float, T]:
    """(seconds, seconds of processor time, result): the two differ while other programs run."""
    began, worked = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - began, time.process_time() - worked, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--pools", type=int, default=20)
    arguments = parser.parse_args()
    before = loop_factor()
    catalog = load_catalog(ROOT)
    inputs = many(catalog, arguments.models, arguments.pools)
    plan_s, plan_cpu_s, plan = timed(lambda: make_plan(inputs))
    # With lengths of its own: the sweep reuses nothing of the plan above.
    model = demand(inputs, "model-9")
    sweep_s, sweep_cpu_s, found = timed(lambda: sweep(replace(model, max_num_seqs=65), catalog))
    tried = len(found.points) + len(found.refused)
    print(f"{measured_on(before)}, load {os.getloadavg()[0]:.1f}\n")
    print("| | measured | processor time | bar |\n|---|---|---|---|")
    size = f"{len(plan.models)} models x {len(plan.pools)} pools"
    print(f"| plan of {size} | {plan_s:.2f} s | {plan_cpu_s:.2f} s | {PLAN_BAR_S:.0f} s |")
    precisions = len({point.precision for point in found.points})
    size = f"{tried} configurations, {len(found.points)} of which run, in {precisions} precisions"
    bar = f"{SWEEP_BAR_S:.0f} s for {SWEEP_CONFIGURATIONS:,}"
    print(f"| sweep of {size} | {sweep_s:.2f} s | {sweep_cpu_s:.2f} s | {bar} |")
    slow = sweep_s / tried > SWEEP_BAR_S / SWEEP_CONFIGURATIONS
    return int(plan_s > PLAN_BAR_S or slow or tried < SWEEP_CONFIGURATIONS)


if __name__ == "__main__":
    sys.exit(main())
