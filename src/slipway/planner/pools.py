"""Pools and what their nodes offer to tasks. Local nodes share one machine."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.document import Origin
from slipway.config.environment import DevSettings
from slipway.config.errors import Problem
from slipway.config.machine import MachineFacts
from slipway.plan.platform import Node, Pool
from slipway.planner.memory.device import GIB, MIB

MHZ_PER_CORE = 1000  # Slipway's nominal core, in Nomad's unit: shares, not clock speed

# Kept from tasks: the user's own programs, and about 95 MB of RSS for each Consul or Nomad agent
# (measured 2026-11-21, Consul 1.22.6 and Nomad 1.11.3).
MACHINE_RESERVE_BYTES = GIB
AGENT_BYTES = 100 * MIB
AGENTS_PER_HOST = 2


def plan_pools(
    settings: DevSettings,
    nodes: Mapping[str, tuple[Node, ...]],
    machine: MachineFacts,
    origin: Origin,
) -> tuple[tuple[Pool, ...], list[Problem]]:
    """One Pool per configured pool, by name.

    Memory is divided: a pool that states `memory` gets it, the rest of the machine is shared
    equally by the other nodes. CPU is not divided: every local node offers all cores (or `cpu`),
    because tasks of one machine take turns on them.
    """
    default_bytes, problems = _memory_per_node(settings, machine, origin)
    pools = tuple(
        Pool(
            name=name,
            kind=pool.kind,
            nodes=nodes[name],
            memory_bytes=pool.memory or default_bytes,
            cpu_mhz=(pool.cpu or machine.cpu_cores) * MHZ_PER_CORE,
        )
        for name, pool in sorted(settings.pools.items())
        if name in nodes
    )
    return pools, problems


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
