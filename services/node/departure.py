"""A host leaves for good: its work moves away first, and the cluster forgets it afterwards.

Both are courtesies of a cluster that goes on. Where it is already gone, or nobody has a token for
it any more, a line says so and the removal continues. One that did not end can be taken back.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

from consul_acl import delete_tokens_of
from document import Departure
from folders import Folders
from http_json import Api, ApiError
from waiting import say, wait_until

NANOSECONDS_PER_S = 1_000_000_000
PATIENCE_MARGIN_S = 60  # a replica leaves Consul first and may be killed in the end
ENDED = ("complete", "failed", "lost")
ANSWER_S = 60  # for servers that elect a leader, or a machine that is busy
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
    """Take a departure back that did not end: Nomad may use the host again. Raises ApiError."""
    nomad = _nomad(folders, departure)
    for node in _answered(lambda: _nodes(nomad, host)):
        path = f"/v1/node/{node['ID']}/drain"
        _answered(lambda path=path: nomad.post(path, {"DrainSpec": None, "MarkEligible": True}))
        say(f"{host}: its removal is taken back, it takes work again")


def forget(folders: Folders, host: str, departure: Departure) -> None:
    """Remove the host from Nomad's and Consul's lists of members."""
    try:
        nomad = _nomad(folders, departure)
        for node in _nodes(nomad, host):
            nomad.put(f"/v1/node/{node['ID']}/purge")
        token = folders.token("consul").read_text()
        consul = Api(departure.consul, {"X-Consul-Token": token})
        consul.put(f"/v1/agent/force-leave/{urllib.parse.quote(host)}?prune")
        delete_tokens_of(consul, host)
    except (ApiError, FileNotFoundError) as error:
        say(f"{host}: still listed in the cluster: {error}")


def _drain(nomad: Api, node_id: str, host: str, timeout_s: int) -> None:
    deadline = {"Deadline": timeout_s * NANOSECONDS_PER_S}
    drain = {"DrainSpec": deadline, "MarkEligible": False}
    _answered(lambda: nomad.post(f"/v1/node/{node_id}/drain", drain))
    # Nomad moves a model's replicas one by one. Where there is no room it ends the others at the
    # deadline, and they have as long again for their requests.
    patience_s = 2 * timeout_s + PATIENCE_MARGIN_S
    wait_until(f"{host} drains", lambda: _still_running(nomad, node_id), patience_s)


def _answered(ask: Callable[[], Answer]) -> Answer:
    """ApiError at once where nothing listens any more or nobody may ask."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.may_pass or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_INTERVAL_S)  # nothing tells when it answers


def _still_running(nomad: Api, node_id: str) -> str | None:
    try:
        allocations: list[dict[str, Any]] = nomad.get(f"/v1/node/{node_id}/allocations") or []
    except ApiError as error:  # servers that choose a leader come back: the drain goes on
        return str(error)
    left = [a["Name"] for a in allocations if a["ClientStatus"] not in ENDED]
    return f"{len(left)} allocations run: {', '.join(sorted(left))}" if left else None


def _nodes(nomad: Api, host: str) -> list[dict[str, Any]]:
    return [node for node in nomad.get("/v1/nodes") or [] if node["Name"] == host]


def _nomad(folders: Folders, departure: Departure) -> Api:
    return Api(departure.nomad, {"X-Nomad-Token": folders.token("nomad").read_text()})
