"""Groups of simulated engines, every member a real process on an address of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

from engine_sim_process import SimProcess, free_address

MASTER_PORT = 9000
_Member = TypeVar("_Member", bound=SimProcess)


def member(kind: type[_Member], rank: int, nodes: int, master: str, **others: Any) -> _Member:
    """Rank 0's address is the master's. Nobody waits for ranks above it: they serve nothing."""
    place = {"nnodes": nodes, "node-rank": rank, "master-addr": master, "master-port": MASTER_PORT}
    settings: dict[str, Any] = {
        "wait_for": "nothing" if rank else "listeners",
        "address": "" if rank else master,
        "pipeline_parallel_size": nodes,
        "options": [text for key, value in place.items() for text in (f"--{key}", str(value))],
    }
    return kind(**{**settings, **others})


@contextlib.contextmanager
def group(kind: type[_Member], nodes: int, **others: Any) -> Iterator[list[_Member]]:
    """Its members in the order of their ranks, once rank 0 is ready."""
    master = free_address()
    members = [member(kind, rank, nodes, master, **others) for rank in range(nodes)]
    with contextlib.ExitStack() as stack:
        for each in members:
            stack.enter_context(each)
        members[0].wait_for(members[0].openai + "/health", 200)
        yield members
