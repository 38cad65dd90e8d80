"""Moves what runs on unhealthy devices; a platform job.

    evacuate.py

An allocation is moved once there is a place for another one; until then it runs on, and the log
says what it waits for.

Environment: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate is in the folder of the last.
The token may list nodes and allocations, and stop allocations.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from program.errors import exit_code
from program.http_json import Api, ApiError
from program.waiting import say

from evacuation.moves import moves, unhealthy_devices

NODES = "/v1/nodes?resources=true"
ALLOCATIONS = "/v1/allocations?resources=true"
LOOK_EVERY_S = 60  # also without a change of the nodes: an allocation may have come since
WAITING_S = 5  # a device that becomes free is no change of its node


class Evacuation:
    """`_said` are the lines of the last look, by allocation: only news is logged."""

    def __init__(self, nomad: Api, say: Callable[[str], None]) -> None:
        self._nomad = nomad
        self._say = say
        self._said: dict[str, str] = {}
        self._index = 0

    def look(self) -> None:
        """Waits for a change of the nodes, and moves what has to. Raises ApiError."""
        wait_s = WAITING_S if self._said else LOOK_EVERY_S
        nodes, self._index = self._nomad.watch(NODES, self._index, wait_s)
        lines: dict[str, str] = {}
        if any(unhealthy_devices(node) for node in nodes or ()):
            allocations = self._nomad.get(ALLOCATIONS)
            for move in moves(nodes, allocations or ()):
                lines[move.allocation] = move.line
                if self._said.get(move.allocation) != move.line:
                    self._say(move.line)
                if not move.lacks:
                    self._nomad.post(f"/v1/allocation/{move.allocation}/stop")
        self._said = lines


def run() -> None:
    nomad = Api(
        os.environ["NOMAD_ADDR"],
        {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]},
        certificate=Path(os.environ["NOMAD_CACERT"]).parent,
    )
    evacuation = Evacuation(nomad, say)
    while True:
        try:
            evacuation.look()
        except ApiError as error:  # an agent or a server is away: ask again
            say(str(error))
            time.sleep(WAITING_S)


def main() -> int:
    return exit_code(run)
