"""Apply a document to Consul's ACLs: policies, roles and tokens, or the workloads' auth method.

    consul_acl.py apply     document in SLIPWAY_DOCUMENT (schemas/consul-acl.schema.json), tokens as
                            JSON on standard input

A document is authoritative for the kinds of objects that it lists. Every token has a given id and
secret, so applying twice changes nothing and nothing has to be read back. Objects that an earlier
document created and this one does not list are pruned; other objects are left alone: ours are
recognised by the prefix of their description. A host's tokens are kept until it has left, because
its agents need them to deregister its services. Nothing has to be removed at the end: the ACLs are
deleted with the servers' data, and the operator's token file with the last agent.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from program import agent_tokens
from program.agent_tokens import OURS, host_of
from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, InputError, exit_code
from program.folders import Folders, write_private
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

SCHEMA = "consul-acl.schema.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Kind:
    """One kind of ACL object: its list, its items, and how an item is named.

    `key` is the field that names an item in the document, `handle` the field used in its URL; they
    differ where Consul assigns an id.
    """

    name: str
    listing: str
    item: str
    key: str
    handle: str


AUTH_METHODS = Kind("auth_methods", "/v1/acl/auth-methods", "/v1/acl/auth-method", "Name", "Name")
TOKENS = Kind("tokens", agent_tokens.TOKENS, agent_tokens.TOKEN, "AccessorID", "AccessorID")
# In the order of creation: a role names policies, a rule names a role, a token names policies.
KINDS = (
    Kind("policies", "/v1/acl/policies", "/v1/acl/policy", "Name", "ID"),
    Kind("roles", "/v1/acl/roles", "/v1/acl/role", "Name", "ID"),
    AUTH_METHODS,
    Kind("binding_rules", "/v1/acl/binding-rules", "/v1/acl/binding-rule", "Description", "ID"),
    TOKENS,
)


def apply(folders: Folders, document: JsonObject, secrets: JsonObject) -> None:
    """Wait for a leader, apply every kind, and leave the operator's token in a 0600 file."""
    with parsing(SCHEMA):
        token = secrets["management_token"]
        consul = operators(document["address"], {"X-Consul-Token": token})
        timeout_s = document["leader_timeout_s"]
        wanted = {kind: document[kind.name] for kind in KINDS if kind.name in document}
        if TOKENS in wanted:
            wanted[TOKENS] = _with_secrets(wanted[TOKENS], secrets["tokens"])
        if AUTH_METHODS in wanted:
            wanted[AUTH_METHODS] = [
                _with_authority(method, secrets.get("authority")) for method in wanted[AUTH_METHODS]
            ]
    took_s = wait_until("Consul", lambda: _missing(consul), timeout_s)
    say(f"Consul: has a leader and accepts the operator's token, {took_s:.1f} s")
    wait_until("Consul's ACLs", lambda: _refused(consul, wanted), timeout_s)
    write_private(folders.token("consul"), token)
    counts = [f"{len(items)} {kind.name.replace('_', ' ')}" for kind, items in wanted.items()]
    say(f"Consul: {', '.join(counts)}")


def _refused(consul: Api, wanted: Mapping[Kind, list[JsonObject]]) -> str | None:
    """Apply every kind. Returns why that failed if it may pass: without a leader of Nomad, Consul
    cannot fetch the keys of workload identities."""
    try:
        for kind, items in wanted.items():
            _put(consul, kind, items)
        for kind, items in reversed(wanted.items()):
            _prune(consul, kind, items)
    except ApiError as error:
        if error.may_pass:
            return str(error)
        raise HostError(f"Consul refused its ACLs: {error}") from None
    return None


def _put(consul: Api, kind: Kind, items: list[JsonObject]) -> None:
    existing = {item[kind.key]: item for item in consul.get(kind.listing)}
    for item in items:
        present = existing.get(item[kind.key])
        if present is None:
            consul.put(kind.item, item)
        elif kind is TOKENS:
            _put_token(consul, kind, item)
        else:
            consul.put(_address(kind, present), {**item, kind.handle: present[kind.handle]})


def _put_token(consul: Api, kind: Kind, token: JsonObject) -> None:
    """A token's secret cannot change, so a token with another secret is deleted and created
    again."""
    address = _address(kind, token)
    if consul.get(address)["SecretID"] != token["SecretID"]:
        consul.delete(address)
        consul.put(kind.item, token)
    else:
        consul.put(address, token)


def _prune(consul: Api, kind: Kind, items: list[JsonObject]) -> None:
    named = {item[kind.key] for item in items}
    hosts = {node["Node"] for node in consul.get("/v1/catalog/nodes")} if kind is TOKENS else set()
    for item in consul.get(kind.listing):
        ours = item.get("Description", "").startswith(OURS)
        if ours and item[kind.key] not in named and host_of(item) not in hosts:
            consul.delete(_address(kind, item))


def _address(kind: Kind, item: JsonObject) -> str:
    return f"{kind.item}/{urllib.parse.quote(item[kind.handle])}"


def _with_secrets(tokens: list[JsonObject], secrets: dict[str, str]) -> list[JsonObject]:
    missing = [token["AccessorID"] for token in tokens if token["AccessorID"] not in secrets]
    if missing:
        raise InputError(f"standard input has no secrets for the tokens {', '.join(missing)}")
    return [{**token, "SecretID": secrets[token["AccessorID"]]} for token in tokens]


def _with_authority(method: JsonObject, authority: str | None) -> JsonObject:
    """Consul verifies the server of the keys by this authority (PEM); it has none for http."""
    if authority is None:
        return method
    return {**method, "Config": {**method["Config"], "JWKSCACert": authority}}


def _missing(consul: Api) -> str | None:
    try:
        if not consul.get("/v1/status/leader"):
            return "no leader has been elected"
        consul.get("/v1/acl/token/self")
    except ApiError as error:
        if error.status == 403:
            return f"{error} (data of a cluster with another token? `slipway down` removes it)"
        return str(error)
    return None


def run() -> None:
    expect_apply("consul_acl.py")
    apply(Folders.from_environment(), read_document(SCHEMA_VERSION), read_secrets())


def main() -> int:
    return exit_code(run)
