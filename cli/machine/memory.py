"""The additional memory that a plan needs on this machine, and the memory available to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from slipway.plan.platform import ModelPlan, PlatformPlan

PLATFORM_BYTES = 1_200_000_000  # the platform without engines (docs/benchmarks/dev.md)
MIB = 2**20

Allocation = Mapping[str, Any]


def newly_needed_bytes(
    plan: PlatformPlan, allocations: Sequence[Allocation] | None
) -> dict[str, int]:
    """By consumer: the platform, and each model whose replicas do not run as planned.

    `allocations` are Nomad's, None if it does not run.
    """
    if allocations is None:
        return {"the platform": PLATFORM_BYTES} | {
            model.name: model.stable.scaling.min_replicas
            * model.replica.nodes
            * model.replica.memory_bytes
            for model in plan.models
        }
    running = [each for each in allocations if each["ClientStatus"] == "running"]
    needs = {model.name: _new_replicas_bytes(model, running) for model in plan.models}
    return {name: need for name, need in needs.items() if need}


def _new_replicas_bytes(model: ModelPlan, running: Sequence[Allocation]) -> int:
    """A changed spec starts as many replicas as the old one has now: beside them, or in their place
    if they are replaced one by one. One over several nodes has an allocation on each."""
    job_id, scaling, members = model.stable.job_id, model.stable.scaling, model.replica.nodes
    as_planned = [each for each in running if each["JobID"] == job_id]
    others = [each for each in running if _is_other_spec(each, model)]
    now = -(-len(others) // members)
    count = max(scaling.min_replicas, min(now, scaling.max_replicas))
    new = max(0, count * members - len(as_planned)) * model.replica.memory_bytes
    if model.surge is None:
        return new
    return max(0, new - sum(_reserved_bytes(each) for each in others))


def _is_other_spec(allocation: Allocation, model: ModelPlan) -> bool:
    """A job's ID is the model's followed by the digest of the spec."""
    job, planned = str(allocation["JobID"]), model.stable.job_id
    return job != planned and job.rpartition("-")[0] == planned.rpartition("-")[0]


def _reserved_bytes(allocation: Allocation) -> int:
    """The most that the job reserves at a time; its tasks run one after the other."""
    tasks = allocation["AllocatedResources"]["Tasks"].values()
    return MIB * max(int(task["Memory"]["MemoryMB"]) for task in tasks)


def available_bytes() -> int:
    """Memory that new processes can use, within the limit of this control group if there is one."""
    available = int(psutil.virtual_memory().available)
    for folder, limit, used, cached in (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ):
        group = Path(folder)
        try:
            free = int((group / limit).read_text()) - int((group / used).read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").open())
        except (OSError, ValueError):  # not this version of cgroups, or "max"
            continue
        available = min(available, free + int(statistics.get(cached, 0)))
    return available
