"""Removal of a host: its work moves away first, and the cluster forgets it afterwards.

By the operator's tokens, where they are on the same machine; other hosts drain themselves
(self_drain.py). Both matter only to a cluster that keeps running. If it is already gone, or no
token for it is left, that is logged and the removal continues. A removal that did not finish can be
undone.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

from permissions.consul import delete_tokens_of
from program.folders import Folders
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

from host.document import Departure

NANOSECONDS_PER_S = 1_000_000_000
PATIENCE_MARGIN_S = 60  # a replica leaves Consul first and may have to be killed at the end
ENDED = ("complete", "failed", "lost")
ANSWER_S = 60  # for servers that are electing a leader, or a busy machine
RETRY_INTERVAL_S = 0.5

Answer = TypeVar("Answer")


def drain(folders: Folders, host: str, departure: Departure) -> None:
    """Have Nomad move the host's allocations to other nodes and wait until none is left."""
    try:
        nomad = _nomad(folders, departure)
        for node in _answered(lambda: _nodes(nomad, host)):
            if node["Status"] == "ready":
                _drain(nomad, node["ID"], host, departure.drain_timeout_s)
    except (ApiError, FileNotFoundError) as error:
        say(f"{host}: not drained: {error}")


def stay(folders: Folders, host: str, departure: Departure) -> None:
    """Undo a removal that did not finish: Nomad may use the host again. Raises ApiError."""
    nomad = _nomad(folders, departure)
    for node in _answered(lambda: _nodes(nomad, host)):
        path = f"/v1/node/{node['ID']}/drain"
        _answered(lambda path=path: nomad.post(path, {"DrainSpec": None, "MarkEligible": True}))
        say(f"{host}: its removal is undone, it accepts work again")


def forget(folders: Folders, host: str, departure: Departure) -> None:
    """Remove the host from Nomad's and Consul's lists of members."""
    try:
        nomad = _nomad(folders, departure)
        for node in _nodes(nomad, host):
            nomad.put(f"/v1/node/{node['ID']}/purge")
        token = folders.token("consul").read_text()
        consul = operators(departure.consul, {"X-Consul-Token": token})
        consul.put(f"/v1/agent/force-leave/{urllib.parse.quote(host)}?prune")
        delete_tokens_of(consul, host)
    except (ApiError, FileNotFoundError) as error:
        say(f"{host}: still listed in the cluster: {error}")


def _drain(nomad: Api, node_id: str, host: str, timeout_s: int) -> None:
    deadline = {"Deadline": timeout_s * NANOSECONDS_PER_S}
    drain = {"DrainSpec": deadline, "MarkEligible": False}
    _answered(lambda: nomad.post(f"/v1/node/{node_id}/drain", drain))
    # Nomad moves a model's replicas one by one. If there is no room, it stops the rest at the
    # deadline, and they have the same time again to finish their requests.
    patience_s = 2 * timeout_s + PATIENCE_MARGIN_S
    wait_until(f"{host} drains", lambda: _still_running(nomad, node_id), patience_s)


def _answered(ask: Callable[[], Answer]) -> Answer:
    """Retries busy servers; raises ApiError at once if nothing listens or the token is refused."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.may_pass or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_INTERVAL_S)  # no event tells when it answers


def _still_running(nomad: Api, node_id: str) -> str | None:
    try:
        allocations: list[dict[str, Any]] = nomad.get(f"/v1/node/{node_id}/allocations") or []
    except ApiError as error:  # during an election of a leader the drain continues
        return str(error)
    left = [a["Name"] for a in allocations if a["ClientStatus"] not in ENDED]
    return f"{len(left)} allocations run: {', '.join(sorted(left))}" if left else None


def _nodes(nomad: Api, host: str) -> list[dict[str, Any]]:
    return [node for node in nomad.get("/v1/nodes") or [] if node["Name"] == host]


def _nomad(folders: Folders, departure: Departure) -> Api:
    return operators(departure.nomad, {"X-Nomad-Token": folders.token("nomad").read_text()})
