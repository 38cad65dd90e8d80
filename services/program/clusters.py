"""A host's entries in Nomad and Consul, by its name."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from functools import partial
from typing import Any

from program.agent_tokens import delete_tokens_of
from program.http_json import Api, answered


def nodes(nomad: Api, host: str) -> list[dict[str, Any]]:
    listed = answered(lambda: nomad.get("/v1/nodes")) or []
    return [node for node in listed if node["Name"] == host]


def forget(nomad: Api, consul: Api, host: str) -> None:
    """Remove the host from both clusters' lists, and delete its tokens. Raises ApiError."""
    purge(nomad, nodes(nomad, host))
    force_leave(consul, host)
    delete_tokens_of(consul, host)


def purge(nomad: Api, listed: Iterable[dict[str, Any]]) -> None:
    for node in listed:
        path = f"/v1/node/{node['ID']}/purge"
        answered(partial(nomad.put, path))


def members(consul: Api, host: str) -> list[dict[str, Any]]:
    listed = answered(lambda: consul.get("/v1/agent/members"))
    return [member for member in listed if member["Name"] == host]


def force_leave(consul: Api, host: str) -> None:
    """Consul reports a failure if no member is left to hear of it, although the host is gone."""

    def leave() -> None:
        if members(consul, host):
            consul.put(f"/v1/agent/force-leave/{urllib.parse.quote(host)}?prune")

    answered(leave)
