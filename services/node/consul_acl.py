"""Bring Consul's ACLs to a document: policies, roles and tokens, or the way in for workloads.

    consul_acl.py apply     document in SLIPWAY_DOCUMENT, tokens as JSON on standard input
    consul_acl.py remove    delete the operator's token file; the ACLs go with the servers' data

A document holds some kinds of objects and is the whole truth about those. Every token has a given
id and a given secret, so applying twice changes nothing and nothing has to be read back. What an
earlier document made and this one does not name is deleted; what others made is left alone: ours is
recognised by the beginning of its description. The tokens of a host last until it has left, since
its agents take its services out of the catalog with them.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import sys
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from document import read_document, read_secrets
from errors import HostError, InputError, exit_code
from folders import Folders, write_private
from http_json import Api, ApiError
from waiting import say, wait_until

OURS = "slipway: "


@dataclass(frozen=True)
class Kind:
    """One kind of ACL object: its list, its items, and what names an item.

    `key` is the field the document names an item by, `handle` the field its address carries; they
    differ where Consul gives the item an id of its own.
    """

    name: str
    listing: str
    item: str
    key: str
    handle: str


TOKENS = Kind("tokens", "/v1/acl/tokens", "/v1/acl/token", "AccessorID", "AccessorID")
# In the order of creation: a role names policies, a rule names a role, a token names policies.
KINDS = (
    Kind("policies", "/v1/acl/policies", "/v1/acl/policy", "Name", "ID"),
    Kind("roles", "/v1/acl/roles", "/v1/acl/role", "Name", "ID"),
    Kind("auth_methods", "/v1/acl/auth-methods", "/v1/acl/auth-method", "Name", "Name"),
    Kind("binding_rules", "/v1/acl/binding-rules", "/v1/acl/binding-rule", "Description", "ID"),
    TOKENS,
)


def apply(folders: Folders, document: dict[str, Any], secrets: dict[str, Any]) -> None:
    """Wait for a leader, apply every kind, and leave the operator's token in a 0600 file."""
    token = secrets["management_token"]
    consul = Api(document["address"], {"X-Consul-Token": token})
    took_s = wait_until("Consul", lambda: _missing(consul), document["leader_timeout_s"])
    say(f"Consul: has a leader and takes the operator's token, {took_s:.1f} s")
    wanted = {kind: document[kind.name] for kind in KINDS if kind.name in document}
    if TOKENS in wanted:
        wanted[TOKENS] = _with_secrets(wanted[TOKENS], secrets["tokens"])
    try:
        for kind, items in wanted.items():
            _put(consul, kind, items)
        for kind, items in reversed(wanted.items()):
            _prune(consul, kind, items)
    except ApiError as error:
        raise HostError(f"Consul refused its ACLs: {error}") from None
    write_private(folders.token("consul"), token)
    counts = [f"{len(items)} {kind.name.replace('_', ' ')}" for kind, items in wanted.items()]
    say(f"Consul: {', '.join(counts)}")


def remove(folders: Folders) -> None:
    folders.token("consul").unlink(missing_ok=True)


def delete_tokens_of(consul: Api, host: str) -> None:
    """What a host's agents had, once it has left."""
    for token in consul.get(TOKENS.listing):
        if _host_of(token) == host:
            consul.delete(_address(TOKENS, token))


def _put(consul: Api, kind: Kind, items: list[dict[str, Any]]) -> None:
    existing = {item[kind.key]: item for item in consul.get(kind.listing)}
    for item in items:
        present = existing.get(item[kind.key])
        if present is None:
            consul.put(kind.item, item)
        elif kind is TOKENS:
            _put_token(consul, kind, item)
        else:
            consul.put(_address(kind, present), {**item, kind.handle: present[kind.handle]})


def _put_token(consul: Api, kind: Kind, token: dict[str, Any]) -> None:
    """A token's secret cannot change: with another secret it is another token."""
    address = _address(kind, token)
    if consul.get(address)["SecretID"] != token["SecretID"]:
        consul.delete(address)
        consul.put(kind.item, token)
    else:
        consul.put(address, token)


def _prune(consul: Api, kind: Kind, items: list[dict[str, Any]]) -> None:
    named = {item[kind.key] for item in items}
    hosts = {node["Node"] for node in consul.get("/v1/catalog/nodes")} if kind is TOKENS else set()
    for item in consul.get(kind.listing):
        ours = item.get("Description", "").startswith(OURS)
        if ours and item[kind.key] not in named and _host_of(item) not in hosts:
            consul.delete(_address(kind, item))


def _host_of(token: dict[str, Any]) -> str | None:
    """The last word of our tokens' descriptions; None of others' tokens."""
    description = str(token.get("Description", ""))
    return description.rpartition(" ")[2] if description.startswith(OURS) else None


def _address(kind: Kind, item: dict[str, Any]) -> str:
    return f"{kind.item}/{urllib.parse.quote(item[kind.handle])}"


def _with_secrets(tokens: list[dict[str, Any]], secrets: dict[str, str]) -> list[dict[str, Any]]:
    missing = [token["AccessorID"] for token in tokens if token["AccessorID"] not in secrets]
    if missing:
        raise InputError(f"standard input holds no secret of the tokens {', '.join(missing)}")
    return [{**token, "SecretID": secrets[token["AccessorID"]]} for token in tokens]


def _missing(consul: Api) -> str | None:
    try:
        if not consul.get("/v1/status/leader"):
            return "no leader is elected"
        consul.get("/v1/acl/token/self")
    except ApiError as error:
        if error.status == 403:
            return f"{error} (data of a cluster with another token? `slipway down` removes it)"
        return str(error)
    return None


def _actions(folders: Folders) -> dict[str, Callable[[], None]]:
    return {
        "apply": lambda: apply(folders, read_document(), read_secrets()),
        "remove": lambda: remove(folders),
    }


def main(arguments: list[str]) -> None:
    actions = _actions(Folders.from_environment())
    if len(arguments) != 1 or arguments[0] not in actions:
        raise InputError("usage: consul_acl.py apply|remove")
    actions[arguments[0]]()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
