"""Hosts that a job of groups may use: those whose fabric check has passed (docs/adr/0031-*.md).

A group takes whole hosts. Old groups keep theirs when a check fails, so hosts that become free may
be closed to new ones.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote

from program.document import JsonObject
from program.http_json import Api

from gates.model_job import group_of

ADMITTED = "${meta.fabric_members}"  # components/serving/members.py
ALIVE = ("pending", "running")


def asks_for_admission(document: JsonObject) -> bool:
    """Whether only admitted hosts take this job."""
    constraints = group_of(document).get("Constraints") or ()
    return any(each.get("LTarget") == ADMITTED for each in constraints)


def free_hosts(nomad: Api, pool: str, leaving: Collection[str]) -> int:
    """The admitted hosts of a pool that hold no model once these allocations (IDs) have left."""
    condition = quote(f'NodePool == "{pool}" and Meta.fabric_members == "yes"')
    admitted = {
        each["ID"]
        for each in nomad.get(f"/v1/nodes?filter={condition}")
        if each["Status"] == "ready" and each["SchedulingEligibility"] == "eligible"
    }
    taken = {
        each["NodeID"]
        for each in nomad.get("/v1/allocations")
        if each["JobID"].startswith("model-")
        and each["ClientStatus"] in ALIVE
        and each["ID"] not in leaving
    }
    return len(admitted - taken)
