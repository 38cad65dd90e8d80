"""Pools on this machine: their nodes share its memory and take turns on its cores."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.dev import DevSettings
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.machine import MachineFacts
from slipway.plan.platform import Node
from slipway.planner.fabric.spec import local_fabric
from slipway.planner.units import GIB, MIB

from .supply import MHZ_PER_CORE, OWNED, Supply, price

NOTHING_BOUGHT = "this machine: nothing is bought"

# Not available to tasks: the user's own programs, and about 95 MB of RSS per Consul or Nomad agent
# (measured 2026-11-21, Consul 1.22.6 and Nomad 1.11.3).
MACHINE_RESERVE_BYTES = GIB
AGENT_BYTES = 100 * MIB
AGENTS_PER_HOST = 2

# Only a share of the cores that an engine can use is reserved: a replica and its successor fit on
# one node.
TASKS_PER_CORE = 4


def local_supplies(
    settings: DevSettings,
    nodes: Mapping[str, tuple[Node, ...]],
    machine: MachineFacts,
    origin: Origin,
) -> tuple[dict[str, Supply], list[Problem]]:
    """One Supply per pool, by name.

    Memory is divided: a pool that states `memory` gets it, and the other nodes share the rest of
    the machine equally. CPU is not divided: every local node offers all cores (or `cpu`), because
    tasks take turns on them.
    """
    default_bytes, problems = _memory_per_node(settings, machine, origin)
    supplies = {
        name: Supply(
            pool=name,
            kind=pool.kind,
            instance="",
            accelerator_name="",
            accelerator=None,
            accelerators_per_node=0,
            nodes_min=pool.nodes,
            nodes_max=pool.nodes,
            market=OWNED,
            network_gbps=0.0,
            network_sustained_gbps=None,
            node_usd_per_hour=price(0.0, NOTHING_BOUGHT),
            price_date="",
            link_latency_us=0.0,
            node_memory_bytes=pool.memory or default_bytes,
            node_cpu_mhz=(pool.cpu or machine.cpu_cores) * MHZ_PER_CORE,
            tasks_per_core=TASKS_PER_CORE,
            fabric=local_fabric(pool.fabric),
            fabric_limits=pool.fabric.check,
            hosts=nodes[name],
            on_loopback=True,
        )
        for name, pool in sorted(settings.pools.items())
    }
    return supplies, problems


def _memory_per_node(
    settings: DevSettings, machine: MachineFacts, origin: Origin
) -> tuple[int, list[Problem]]:
    """(memory of a node that states none, problems)."""
    pools = settings.pools.values()
    hosts = settings.servers + sum(pool.nodes for pool in pools)
    reserve = MACHINE_RESERVE_BYTES + hosts * AGENTS_PER_HOST * AGENT_BYTES
    stated = sum(pool.memory * pool.nodes for pool in pools if pool.memory)
    sharing = sum(pool.nodes for pool in pools if not pool.memory)
    left = machine.memory_bytes - reserve - stated
    per_node = max(0, left // max(1, sharing) // MIB * MIB)
    if left >= 0:
        return per_node, []
    problem = origin.problem(
        ("pools",),
        f"state {_gib(stated)} of memory in all; this machine has {_gib(machine.memory_bytes)},"
        f" of which {_gib(reserve)} are kept for agents and the system",
        fix="lower `memory` or `nodes`",
    )
    return per_node, [problem]


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
