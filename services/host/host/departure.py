"""Removal of a host of this machine: its work moves away first, and the clusters forget it
afterwards.

This uses the operator's tokens, which are on the same machine. Other hosts drain themselves
(self_drain.py), and the operator's admission (services/operator) has the clusters forget them. Both
matter only to a cluster that keeps running. If it is already gone, or no token for it is left, that
is logged and the removal continues. A removal that did not finish can be undone.
"""

from __future__ import annotations

from typing import Any

from program import clusters
from program.folders import Folders
from program.http_json import Api, ApiError, answered, operators
from program.waiting import say, wait_until

from host.document import Departure

NANOSECONDS_PER_S = 1_000_000_000
PATIENCE_MARGIN_S = 60  # a replica leaves Consul first and may have to be killed at the end
ENDED = ("complete", "failed", "lost")


def drain(folders: Folders, host: str, departure: Departure) -> None:
    """Have Nomad move the host's allocations to other nodes and wait until none is left."""
    try:
        nomad = _nomad(folders, departure)
        for node in clusters.nodes(nomad, host):
            if node["Status"] == "ready":
                _drain(nomad, node["ID"], host, departure.drain_timeout_s)
    except (ApiError, FileNotFoundError) as error:
        say(f"{host}: not drained: {error}")


def stay(folders: Folders, host: str, departure: Departure) -> None:
    """Undo a removal that did not finish: Nomad may use the host again. Raises ApiError."""
    nomad = _nomad(folders, departure)
    for node in clusters.nodes(nomad, host):
        path = f"/v1/node/{node['ID']}/drain"
        answered(lambda path=path: nomad.post(path, {"DrainSpec": None, "MarkEligible": True}))
        say(f"{host}: its removal is undone, it accepts work again")


def forget(folders: Folders, host: str, departure: Departure) -> None:
    """Remove the host from Nomad's and Consul's lists of members."""
    try:
        token = folders.token("consul").read_text()
        consul = operators(departure.consul, {"X-Consul-Token": token})
        clusters.forget(_nomad(folders, departure), consul, host)
    except (ApiError, FileNotFoundError) as error:
        say(f"{host}: still listed in the cluster: {error}")


def _drain(nomad: Api, node_id: str, host: str, timeout_s: int) -> None:
    deadline = {"Deadline": timeout_s * NANOSECONDS_PER_S}
    drain = {"DrainSpec": deadline, "MarkEligible": False}
    answered(lambda: nomad.post(f"/v1/node/{node_id}/drain", drain))
    # Nomad moves a model's replicas one by one. If there is no room, it stops the rest at the
    # deadline, and they have the same time again to finish their requests.
    patience_s = 2 * timeout_s + PATIENCE_MARGIN_S
    wait_until(f"{host} drains", lambda: _still_running(nomad, node_id), patience_s)


def _still_running(nomad: Api, node_id: str) -> str | None:
    try:
        allocations: list[dict[str, Any]] = nomad.get(f"/v1/node/{node_id}/allocations") or []
    except ApiError as error:  # during an election of a leader the drain continues
        return str(error)
    left = [a["Name"] for a in allocations if a["ClientStatus"] not in ENDED]
    return f"{len(left)} allocations run: {', '.join(sorted(left))}" if left else None


def _nomad(folders: Folders, departure: Departure) -> Api:
    return operators(departure.nomad, {"X-Nomad-Token": folders.token("nomad").read_text()})
