"""Advice for a model that none of its pools can run, by the kind of the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from slipway.plan.figures import DeviceMemory, Layout
from slipway.planner.groups import crosses_hosts
from slipway.planner.supply.supply import Supply

from .demand import Demand
from .feasibility import asked_memory, replica_memory
from .layouts import tensor_layouts

NO_ROOM = "add `nodes` to a pool, lower `replicas.min`, or name another pool"
OTHER_ACCELERATORS = "name a pool with other accelerators"


def advice(demand: Demand, supplies: Iterable[Supply], model_file: str) -> str:
    """The change that would let the model fit on one of these pools of accelerators."""
    served = [
        supply
        for supply in supplies
        if not demand.engine.accelerator_problems(supply.accelerator_name, supply.device)
    ]
    if not served:
        return OTHER_ACCELERATORS
    run = [
        (supply, layout)
        for supply, layout in _layouts(demand, served)
        if _runs(demand, supply, layout)
    ]
    if not run:
        return (
            f"{OTHER_ACCELERATORS}, or change the precision (`engine.quantization`,"
            f" `engine.kv_cache_dtype`, `engine.dtype`) in {model_file}"
        )
    fitting = [each for each in run if _fits(demand, *each)]
    refused = demand.layout and not any(_runs(demand, supply, demand.layout) for supply in served)
    if fitting or refused:
        sizes = sorted({layout.tensor for _, layout in fitting or run})
        experts = demand.layout is not None and demand.layout.expert > 1
        also = ", and tensor x data for `parallel.expert`," if experts else ""
        return f"use {_either(sizes)} for `parallel.tensor`{also} in {model_file}"
    if group := next(_fitting_groups(demand, served), None):
        supply, layout = group
        return (
            f"set `parallel: {{tensor: {layout.tensor}, pipeline: {layout.pipeline}}}` in"
            f" {model_file}: it fits on {supply.hosts_of(layout)} hosts of pool {supply.pool}"
        )
    return (
        "name a pool with larger or more accelerators, split the model (`parallel`), quantize it,"
        f" or lower max_model_len in {model_file}"
    )


def _layouts(demand: Demand, supplies: Iterable[Supply]) -> Iterator[tuple[Supply, Layout]]:
    """The layout that the model file states, or a single device, in every tensor size."""
    stated = demand.layout or Layout()
    for supply in supplies:
        for tensor in (each.tensor for each in tensor_layouts(supply.accelerators_per_node)):
            expert = 1 if stated.expert == 1 else tensor * stated.data
            yield supply, replace(stated, tensor=tensor, expert=expert)


def _fitting_groups(demand: Demand, supplies: Iterable[Supply]) -> Iterator[tuple[Supply, Layout]]:
    """Pipelines over whole hosts that hold the model where one host is too small: the fewest hosts
    first, and of these the widest tensor-parallel groups."""
    joined = [supply for supply in supplies if crosses_hosts(supply)]
    for hosts in range(2, max((supply.nodes_max for supply in joined), default=0) + 1):
        for supply in joined:
            for layout in _pipelines(hosts, supply.accelerators_per_node):
                if _fits(demand, supply, layout):
                    yield supply, layout


def _pipelines(hosts: int, devices_per_host: int) -> Iterator[Layout]:
    for tensor in reversed([each.tensor for each in tensor_layouts(devices_per_host)]):
        if devices_per_host % tensor == 0:
            yield Layout(tensor=tensor, pipeline=hosts * devices_per_host // tensor)


def _runs(demand: Demand, supply: Supply, layout: Layout) -> bool:
    return isinstance(asked_memory(demand, supply, layout), DeviceMemory)


def _fits(demand: Demand, supply: Supply, layout: Layout) -> bool:
    return isinstance(replica_memory(demand, supply, layout), DeviceMemory)


def _either(sizes: Sequence[int]) -> str:
    """ "1, 2 or 4" """
    *others, last = map(str, sizes)
    return f"{', '.join(others)} or {last}" if others else last
