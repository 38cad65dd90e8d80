"""Replicas over several hosts: what Slipway plans of them, and why it refuses the rest.

A group takes whole hosts of one pool. Its tensor-parallel groups stay inside a host, because they
exchange twice a layer; only a pipeline, which sends once a stage, crosses hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.plan.fabric import RDMA
from slipway.plan.figures import Layout

from .supply.supply import Supply
from .wording import counted

EXCHANGES = {
    "expert": "in every layer each device sends tokens to all others",
    "data": "at every step each rank waits for all others",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProblem:
    """Why a layout is refused. `size` is the key of `parallel` that decides it."""

    size: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.fix}"


def stage_problems(layers: int, pipeline: int) -> Iterator[GroupProblem]:
    """Every stage of a pipeline needs a layer."""
    if pipeline > layers:
        yield GroupProblem(
            size="pipeline",
            reason=f"{layers} layers are too few for {pipeline} pipeline stages",
            fix=f"use at most {layers}",
        )


def host_problems(layout: Layout, devices_per_host: int) -> Iterator[GroupProblem]:
    """What vLLM could run, but Slipway does not plan, whatever joins the hosts: vLLM itself takes
    any number of devices that its nodes divide (nnodes in vllm/engine/arg_utils.py)."""
    hosts = layout.nodes(devices_per_host)
    if layout.tensor > devices_per_host:
        yield _outside_a_host(layout, devices_per_host)
    elif hosts == 1:
        return
    elif layout.expert > 1:
        yield _over_hosts(layout, "expert", hosts, devices_per_host)
    elif layout.data > 1:
        yield _over_hosts(layout, "data", hosts, devices_per_host)
    elif devices_per_host % layout.tensor or layout.devices % devices_per_host:
        yield _part_of_a_host(layout, hosts, devices_per_host)


def pool_problems(layout: Layout, supply: Supply) -> Iterator[GroupProblem]:
    """What the pool cannot hold or join, of a layout without problems of its own. A host without
    accelerators counts as one device."""
    hosts = supply.hosts_of(layout)
    if hosts == 1:
        return
    if supply.nodes_max < hosts:
        each = supply.accelerators_per_node or 1
        yield GroupProblem(
            size="pipeline",
            reason=f"a replica of {counted(layout.pipeline, 'stage')} takes {hosts} whole hosts,"
            f' and pool "{supply.pool}" has at most {supply.nodes_max}',
            fix=f"use at most {supply.nodes_max * each // layout.tensor}, or add hosts to the pool",
        )
    if not crosses_hosts(supply):
        yield GroupProblem(
            size="pipeline",
            reason=f"a pipeline over {hosts} hosts exchanges at every step, and the fabric of pool"
            f' "{supply.pool}" is {supply.fabric.kind}',
            fix="use a pool with infiniband, roce or efa, or accept the latency with"
            " `fabric: {kind: tcp, allow_tcp: true}` of the pool",
        )


def crosses_hosts(supply: Supply) -> bool:
    """Whether a pipeline may cross the pool's hosts."""
    return supply.fabric.kind in RDMA or supply.fabric.allow_tcp


def _outside_a_host(layout: Layout, devices_per_host: int) -> GroupProblem:
    tensor = layout.tensor
    inside = max(size for size in range(1, devices_per_host + 1) if tensor % size == 0)
    return GroupProblem(
        size="tensor",
        reason=f"Slipway keeps a tensor-parallel group inside a node of {devices_per_host} devices",
        fix=f"use TP {inside} with PP {layout.pipeline * tensor // inside}",
    )


def _over_hosts(layout: Layout, size: str, hosts: int, devices_per_host: int) -> GroupProblem:
    return GroupProblem(
        size=size,
        reason=f"{layout.devices} devices take {hosts} hosts of {devices_per_host}, and Slipway"
        f" plans no {size} parallelism over hosts: {EXCHANGES[size]}",
        fix=f"leave `{size}` out and split over hosts with `pipeline`, or raise `replicas`",
    )


def _part_of_a_host(layout: Layout, hosts: int, devices_per_host: int) -> GroupProblem:
    return GroupProblem(
        size="pipeline",
        reason=f"a replica over several hosts takes whole ones, and {layout.devices} devices are"
        f" not {hosts} hosts of {devices_per_host} with whole tensor-parallel groups of"
        f" {layout.tensor}",
        fix=_whole_hosts(layout, hosts, devices_per_host),
    )


def _whole_hosts(layout: Layout, hosts: int, devices_per_host: int) -> str:
    if devices_per_host % layout.tensor:
        return f"use a `tensor` that divides {devices_per_host}"
    return f"use `pipeline: {hosts * devices_per_host // layout.tensor}`"
