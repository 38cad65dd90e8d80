"""Jobs of one model on accelerators, by runtime, vendor and number of devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from components.nomad.jobspec import Job
from components.serving.nomad_job import model_job
from slipway.plan.platform import ModelPlan, PlatformPlan
from stacks.planning import make_plan
from tests.unit.planner.fleets import OWNED, engine, fleet, model_file

ACCELERATORS: Mapping[str, str] = {"nvidia": "H100-80", "amd": "MI300X"}
COUNTS = (1, 2, 4, 8)
Shape = tuple[str, int]
SHAPES: list[Shape] = [(vendor, count) for vendor in ACCELERATORS for count in COUNTS]
BARE: Mapping[str, str] = {}
IMAGE = f"registry.example:5000/serving/triton-vllm@sha256:{'0123456789abcdef' * 4}"
IN_CONTAINERS: Mapping[str, str] = {"runtime": "container", "image": IMAGE}
SOURCE = {"s3": "s3://models/chat/", "revision": "1", "credentials": "models"}
POOL = "own"
STORE = {"size": "3TiB", "path": "/mnt/models"}


def planned(
    vendor: str, count: int, settings: Mapping[str, str] = BARE
) -> tuple[PlatformPlan, ModelPlan]:
    return _planned(vendor, count, tuple(settings.items()))


def accelerator_job(vendor: str, count: int, settings: Mapping[str, str] = BARE) -> Job:
    plan, model = planned(vendor, count, settings)
    return model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)


@cache
def _planned(
    vendor: str, count: int, settings: tuple[tuple[str, str], ...]
) -> tuple[PlatformPlan, ModelPlan]:
    size = {"memory": "1TiB", "cpu": 96}
    pool = OWNED | {"accelerator": ACCELERATORS[vendor], "model_store": STORE} | dict(settings)
    model = model_file(engine=engine(), parallel={"tensor": count}, source=SOURCE)
    plan = make_plan(fleet(model, pools={POOL: pool | (size if settings else {})}))
    return plan, plan.models[0]
