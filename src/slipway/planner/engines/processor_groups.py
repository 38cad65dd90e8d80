"""Replicas on processors that are split: a pipeline over whole hosts, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.config.catalog import Architecture
from slipway.config.errors import Problem
from slipway.config.model import Model
from slipway.plan.figures import Layout
from slipway.planner.groups import pool_problems, stage_problems
from slipway.planner.supply.supply import Supply

ACCELERATORS_ONLY = ("tensor", "expert", "data")


def group_problems(model: Model, architecture: Architecture, supply: Supply) -> Iterator[Problem]:
    """Why the pool cannot run the model split as its file says."""
    parallel, origin = model.settings.parallel, model.origin
    for size in ACCELERATORS_ONLY:
        if getattr(parallel, size) > 1:
            yield origin.problem(
                ("parallel", size),
                f'pool "{supply.pool}" has no accelerators to split the model over',
                value=getattr(parallel, size),
                fix=f"leave `{size}` out: on processors only a `pipeline` over hosts splits models",
            )
    found = (
        *stage_problems(architecture.layers, parallel.pipeline),
        *pool_problems(Layout(pipeline=parallel.pipeline), supply),
    )
    for problem in found[:1]:
        yield origin.problem(
            ("parallel", problem.size), problem.reason, value=parallel.pipeline, fix=problem.fix
        )


def member_mhz(model: Model, supply: Supply, alone_mhz: int) -> int:
    """What the replica takes of the cores of each of its hosts, in Nomad's unit: a member takes
    all, so that nothing else is placed beside it."""
    return supply.node_cpu_mhz if model.settings.parallel.pipeline > 1 else alone_mhz
