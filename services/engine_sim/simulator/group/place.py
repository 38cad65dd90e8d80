"""A member's place in its group. The options of the command line have vLLM's names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.document import BadInputError

HOST_ADDRESS = "VLLM_HOST_IP"  # vLLM's own variable
_OPTIONS = ("--nnodes", "--node-rank", "--master-addr", "--master-port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Rank 0 listens at the master's address and port, and alone serves the model."""

    nodes: int
    rank: int
    master_address: str
    master_port: int
    host_address: str | None  # of this member's connections; None: whatever the kernel chooses

    @property
    def headless(self) -> bool:
        return self.rank > 0

    @property
    def master(self) -> str:
        return f"{self.master_address}:{self.master_port}"


def add_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("member of a group", "absent for a replica of one")
    options.add_argument("--nnodes", type=int, metavar="N", help="members of the group")
    options.add_argument("--node-rank", type=int, metavar="R", help="0 to N-1; 0 serves the model")
    options.add_argument("--master-addr", metavar="A", help="where rank 0 waits for the others")
    options.add_argument("--master-port", type=int, metavar="P")


def passed_on(arguments: argparse.Namespace) -> list[str]:
    """The options that were given, for another command line."""
    given = ((option, _value(arguments, option)) for option in _OPTIONS)
    return [part for option, value in given if value is not None for part in (option, str(value))]


def read_place(
    arguments: argparse.Namespace, environment: Mapping[str, str], stages: int
) -> Place | None:
    """None for a replica of one. `stages` is engine.pipeline_parallel_size: one for each member.

    Raises BadInputError for options that contradict each other or the document.
    """
    nodes = 1 if arguments.nnodes is None else arguments.nnodes
    if nodes != stages:
        raise BadInputError(
            f"engine.pipeline_parallel_size: {stages} and --nnodes {nodes} must be equal, since "
            "every member runs one stage"
        )
    rank = 0 if nodes == 1 and arguments.node_rank is None else arguments.node_rank
    if rank is not None and not 0 <= rank < nodes:
        raise BadInputError(f"--node-rank {rank}: a group of {nodes} has ranks 0 to {nodes - 1}")
    if nodes == 1:
        return None
    missing = [option for option in _OPTIONS if _value(arguments, option) in (None, "")]
    if missing:
        raise BadInputError(f"{missing[0]} is missing, which a member of a group of {nodes} needs")
    if not 1 <= arguments.master_port <= 65535:
        raise BadInputError(f"--master-port {arguments.master_port}: must be a port, 1 to 65535")
    return Place(
        nodes=nodes,
        rank=arguments.node_rank,
        master_address=arguments.master_addr,
        master_port=arguments.master_port,
        host_address=environment.get(HOST_ADDRESS) or None,
    )


def _value(arguments: argparse.Namespace, option: str) -> object:
    return getattr(arguments, option.removeprefix("--").replace("-", "_"))
