"""Moves what runs on unhealthy devices; a platform job.

    evacuate.py

Nomad stops an allocation at once when it is asked to, whether or not there is another place
(measured with 1.11.3). So it is asked only once there is one; until then the allocation runs on,
and the log says what it waits for.

Environment: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate is in the folder of the last.
CONSUL_HTTP_ADDR and CONSUL_TOKEN, without which all that runs counts as ready. The token of Nomad
may list nodes and allocations, and stop allocations; that of Consul may read the catalog.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from program.errors import exit_code
from program.group.place import members_of
from program.http_json import Api, ApiError
from program.waiting import say

from evacuation.moves import Move, moves, unhealthy_devices
from evacuation.places import why_no_place
from evacuation.readiness import readiness

NODES = "/v1/nodes?resources=true"
ALLOCATIONS = "/v1/allocations?resources=true"
CHECKS = "/v1/health/state/any"
LOOK_EVERY_S = 60  # also without a change of the nodes: an allocation may have come since
WAITING_S = 5  # a device that becomes free is no change of its node
TURN = "another replica moves first"


class Evacuation:
    """`_said` are the lines of the last look, by allocation: only news is logged."""

    def __init__(self, nomad: Api, consul: Api | None, say: Callable[[str], None]) -> None:
        self._nomad = nomad
        self._consul = consul
        self._say = say
        self._said: dict[str, str] = {}
        self._index = 0
        self._members: dict[str, int] = {}  # by job, whose ID changes with it

    def look(self) -> None:
        """Waits for a change of the nodes, and moves the first allocation that has to and can: its
        new place is then taken when the next one is asked for. Raises ApiError."""
        wait_s = WAITING_S if self._said else LOOK_EVERY_S
        nodes, self._index = self._nomad.watch(NODES, self._index, wait_s)
        lines: dict[str, str] = {}
        if any(unhealthy_devices(node) for node in nodes or ()):
            allocations = self._nomad.get(ALLOCATIONS) or []
            by_id = {each["ID"]: each for each in allocations}
            moved = False
            for move in moves(nodes, allocations, readiness(self._checks()), self._members_of):
                waits_for = move.waits_for or (
                    TURN if moved else why_no_place(by_id[move.allocation], nodes, allocations)
                )
                lines[move.allocation] = _line(move, waits_for)
                if not waits_for:
                    self._nomad.post(f"/v1/allocation/{move.allocation}/stop")
                    moved = True
        for allocation, line in lines.items():
            if self._said.get(allocation) != line:
                self._say(line)
        self._said = lines

    def _members_of(self, job: str) -> int:
        """How many allocations a replica of the job has: asked for once."""
        if job not in self._members:
            self._members[job] = members_of(self._nomad.get(f"/v1/job/{quote(job, safe='')}"))
        return self._members[job]

    def _checks(self) -> Any:
        return self._consul.get(CHECKS) if self._consul else []


def _line(move: Move, waits_for: str) -> str:
    if waits_for:
        return f"waits for another place: {move.what} ({waits_for})"
    return f"moves {move.what}"


def run() -> None:
    certificate = Path(os.environ["NOMAD_CACERT"]).parent

    def api(address: str, header: str, token: str) -> Api:
        return Api(address, {header: token}, certificate=certificate)

    nomad = api(os.environ["NOMAD_ADDR"], "X-Nomad-Token", os.environ["NOMAD_TOKEN"])
    consul = os.environ.get("CONSUL_HTTP_ADDR")
    evacuation = Evacuation(
        nomad,
        api(consul, "X-Consul-Token", os.environ["CONSUL_TOKEN"]) if consul else None,
        say,
    )
    while True:
        try:
            evacuation.look()
        except ApiError as error:  # an agent or a server is away: ask again
            say(str(error))
            time.sleep(WAITING_S)


def main() -> int:
    return exit_code(run)
