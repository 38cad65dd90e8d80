"""The introduction of a host, and the removal of what earlier machines of its name have left in the
clusters."""

from __future__ import annotations

from dataclasses import dataclass

from program.agent_tokens import delete_log_ins_of
from program.clusters import force_leave, members, nodes, purge
from program.http_json import Api, answered


@dataclass(frozen=True)
class Ids:
    """The IDs of a machine's agents in the clusters, which do not depend on its name; "" before the
    agents have started."""

    nomad: str
    consul: str


def introduction(nomad: Api, host: str, pool: str, ttl_s: int) -> str:
    """A token (JWT) by which a client of this name may register in this pool for `ttl_s`."""
    wanted = {"NodeName": host, "NodePool": pool, "TTL": f"{ttl_s}s"}
    path = "/v1/acl/identity/client-introduction-token"
    return str(answered(lambda: nomad.post(path, wanted))["JWT"])


def forget_earlier(nomad: Api, consul: Api, host: str, own: Ids) -> None:
    """Remove what earlier machines of this name have left: their entries, and every token for which
    an agent had logged in. Raises ApiError."""
    purge(nomad, [node for node in nodes(nomad, host) if node["ID"] != own.nomad])
    if any(member["Tags"].get("id") != own.consul for member in members(consul, host)):
        force_leave(consul, host)
    delete_log_ins_of(consul, host)
