"""Jobs of one model on the accelerators of each vendor, by vendor and number of devices."""

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
SHAPES = [(vendor, count) for vendor in ACCELERATORS for count in COUNTS]
SOURCE = {"s3": "s3://models/chat/", "revision": "1", "credentials": "models"}
POOL = "own"
STORE = {"size": "3TiB", "path": "/mnt/models"}


@cache
def planned(vendor: str, count: int) -> tuple[PlatformPlan, ModelPlan]:
    pool = OWNED | {"accelerator": ACCELERATORS[vendor], "model_store": STORE}
    model = model_file(engine=engine(), parallel={"tensor": count}, source=SOURCE)
    plan = make_plan(fleet(model, pools={POOL: pool}))
    return plan, plan.models[0]


def accelerator_job(vendor: str, count: int) -> Job:
    plan, model = planned(vendor, count)
    return model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
