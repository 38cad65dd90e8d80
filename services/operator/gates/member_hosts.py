"""Hosts that a job of groups may use: those whose fabric check has passed (docs/adr/0031-*.md).

A group takes whole hosts. Old groups keep theirs when a check fails, so hosts that become free may
be closed to new ones.
"""

from __future__ import annotations

from collections.abc import Collection

from program.document import JsonObject
from program.http_json import Api

ADMITTED = "${meta.fabric_members}"  # components/serving/members.py
ALIVE = ("pending", "running")


def asks_for_admission(document: JsonObject) -> bool:
    """Whether only admitted hosts take this job."""
    (group,) = document["TaskGroups"]
    return any(each.get("LTarget") == ADMITTED for each in group.get("Constraints") or ())


def free_hosts(nomad: Api, pool: str, leaving: Collection[str]) -> int:
    """The admitted hosts of a pool that hold no model once these allocations (IDs) have left."""
    filtered = f'/v1/nodes?filter=NodePool+==+"{pool}"+and+Meta.fabric_members+==+"yes"'
    admitted = {
        each["ID"]
        for each in nomad.get(filtered.replace('"', "%22"))
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
