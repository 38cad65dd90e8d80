"""Whether vLLM can run a replica at all: the reasons that come before any memory is counted."""

from __future__ import annotations

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import Layout, Precision

from .parallelism import layout_problems
from .precisions import (
    dtype_of,
    dtype_problems,
    engine_problems,
    precision_problems,
    published_problems,
)


def replica_problems(
    architecture: Architecture,
    name: str,
    accelerator: Accelerator,
    *,
    layout: Layout,
    precision: Precision,
    devices_per_node: int,
) -> tuple[str, ...]:
    """Every reason why the replica cannot run on this accelerator, whose catalog key is `name`.

    Where nothing is served on it, that is the only reason: the others are about another engine.
    """
    return engine_problems(name, accelerator) or (
        *published_problems(architecture, precision.weights),
        *layout_problems(architecture, layout, precision, devices_per_node=devices_per_node),
        *precision_problems(architecture, accelerator, layout, precision),
        *dtype_problems(architecture, precision.weights, dtype_of(precision)),
    )
