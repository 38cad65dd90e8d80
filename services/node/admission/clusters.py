"""What Nomad and Consul know of a host, by its name."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from permissions.consul import delete_log_ins_of, delete_tokens_of
from program.http_json import Api, answered


@dataclass(frozen=True)
class Ids:
    """By which the clusters know a machine's agents, whatever its name; "" before they began."""

    nomad: str
    consul: str


def introduction(nomad: Api, host: str, pool: str, ttl_s: int) -> str:
    """A token (JWT) by which a client of this name may register in this pool for `ttl_s`."""
    wanted = {"NodeName": host, "NodePool": pool, "TTL": f"{ttl_s}s"}
    path = "/v1/acl/identity/client-introduction-token"
    return str(answered(lambda: nomad.post(path, wanted))["JWT"])


def nodes(nomad: Api, host: str) -> list[dict[str, Any]]:
    listed = answered(lambda: nomad.get("/v1/nodes")) or []
    return [node for node in listed if node["Name"] == host]


def forget(nomad: Api, consul: Api, host: str) -> None:
    """Remove the host from both clusters' lists, and delete its tokens. Raises ApiError."""
    _purge(nomad, nodes(nomad, host))
    _force_leave(consul, host)
    delete_tokens_of(consul, host)


def forget_earlier(nomad: Api, consul: Api, host: str, own: Ids) -> None:
    """Remove what earlier machines of this name have left: their entries, and every token for which
    an agent had logged in. Raises ApiError."""
    _purge(nomad, [node for node in nodes(nomad, host) if node["ID"] != own.nomad])
    if any(member["Tags"].get("id") != own.consul for member in _members(consul, host)):
        _force_leave(consul, host)
    delete_log_ins_of(consul, host)


def _purge(nomad: Api, listed: Iterable[dict[str, Any]]) -> None:
    for node in listed:
        path = f"/v1/node/{node['ID']}/purge"
        answered(partial(nomad.put, path))


def _members(consul: Api, host: str) -> list[dict[str, Any]]:
    members = answered(lambda: consul.get("/v1/agent/members"))
    return [member for member in members if member["Name"] == host]


def _force_leave(consul: Api, host: str) -> None:
    """Consul reports a failure if no member is left to hear of it, although the host is gone."""

    def leave() -> None:
        if _members(consul, host):
            consul.put(f"/v1/agent/force-leave/{urllib.parse.quote(host)}?prune")

    answered(leave)
