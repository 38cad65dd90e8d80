"""Raises the count of jobs that have members beyond it.

    members_beyond.py

A replica over several hosts is a group of allocations with successive numbers. Nomad scales in by
ending as many as it has above the new count, the highest numbers first. If one of a lower number
has no host at that moment, a group beyond the count keeps a member, and the group below it never
gets its last one: with 0, 2 and 3 placed, a count of 2 leaves 0 and 2, and none of them serves
(measured with 1.11.3).

A count that covers the members beyond it makes the lower group whole, because Nomad fills the
lowest numbers first, with the host that scaling in has freed. The autoscaler lowers the count again
once every member has a host (components/autoscaling/policy.py).

Environment: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate is in the folder of the last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from program.document import JsonObject
from program.errors import exit_code
from program.group.place import index_of, members_of, place_of
from program.http_json import Api, ApiError
from program.waiting import say

LOOK_EVERY_S = 5
MESSAGE = "covers members beyond the count"


def covering(count: int, indexes: Iterable[int], members: int, most: int) -> int:
    """The count that covers allocations with these numbers, in whole groups and at most `most`;
    `count` itself where none is beyond it."""
    groups = max((place_of(index, members).group + 1 for index in indexes), default=0)
    return max(count, min(groups * members, most))


class Counts:
    """`_beyond` are the jobs that the last look found to have members beyond their count: right
    after a change of it Nomad has not ended them yet."""

    def __init__(self, nomad: Api) -> None:
        self._nomad = nomad
        self._beyond: set[str] = set()

    def look(self) -> None:
        """Raises the count of those that are seen for the second time. Raises ApiError."""
        seen = {}
        for job in self._jobs_of_groups():
            group, count = job["TaskGroups"][0], self._covering(job)
            if count > group["Count"]:
                seen[job["ID"]] = (group["Name"], count)
        for job_id in self._beyond & seen.keys():
            name, count = seen[job_id]
            self._scale(job_id, name, count)
        self._beyond = set(seen)

    def _jobs_of_groups(self) -> Iterator[JsonObject]:
        for stub in self._nomad.get("/v1/jobs?meta=true"):
            if not stub["Stop"] and members_of(stub) > 1:
                yield self._nomad.get(f"/v1/job/{quote(stub['ID'], safe='')}")

    def _covering(self, job: JsonObject) -> int:
        """The job's own count while its scaling is off: a change exchanges its replicas."""
        group = job["TaskGroups"][0]
        count, scaling = int(group["Count"]), group.get("Scaling") or {}
        if not scaling.get("Enabled"):
            return count
        allocations: list[dict[str, Any]] = self._nomad.get(
            f"/v1/job/{quote(job['ID'], safe='')}/allocations"
        )
        placed = [index_of(a["Name"]) for a in allocations if a["DesiredStatus"] == "run"]
        return covering(count, placed, members_of(job), int(scaling["Max"]))

    def _scale(self, job_id: str, group: str, count: int) -> None:
        body = {"Count": count, "Target": {"Group": group}, "Message": MESSAGE}
        self._nomad.put(f"/v1/job/{quote(job_id, safe='')}/scale", body)
        say(f"{job_id}: count {count}, which {MESSAGE}")


def run() -> None:
    nomad = Api(
        os.environ["NOMAD_ADDR"],
        {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]},
        certificate=Path(os.environ.get("NOMAD_CACERT", "")).parent,
    )
    counts = Counts(nomad)
    while True:
        try:
            counts.look()
        except ApiError as error:  # a server is away: look again
            say(str(error))
        time.sleep(LOOK_EVERY_S)  # allocations of many jobs have no one event to wait for


def main() -> int:
    return exit_code(run)
