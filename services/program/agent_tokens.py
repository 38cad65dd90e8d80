"""Consul's tokens of a host's agents: those that the platform made, and those from log-ins."""

from __future__ import annotations

import urllib.parse
from typing import Any

from program.http_json import Api

OURS = "slipway: "  # the prefix of the descriptions of all ACL objects that the platform made
TOKENS, TOKEN = "/v1/acl/tokens", "/v1/acl/token"


def delete_tokens_of(consul: Api, host: str) -> None:
    """Delete the tokens of a host's agents, once it has left."""
    for token in consul.get(TOKENS):
        if host_of(token) == host or _logged_in_on(token, host):
            _delete(consul, token)


def delete_log_ins_of(consul: Api, host: str) -> None:
    """Delete the tokens for which a host's agents have logged in."""
    for token in consul.get(TOKENS):
        if _logged_in_on(token, host):
            _delete(consul, token)


def host_of(token: dict[str, Any]) -> str | None:
    """The last word of our tokens' descriptions; None for other tokens."""
    description = str(token.get("Description", ""))
    return description.rpartition(" ")[2] if description.startswith(OURS) else None


def _logged_in_on(token: dict[str, Any], host: str) -> bool:
    """Matches Consul's node binding; descriptions are controlled by hosts."""
    bound = [identity["NodeName"] for identity in token.get("NodeIdentities") or []]
    return "AuthMethod" in token and host in bound


def _delete(consul: Api, token: dict[str, Any]) -> None:
    consul.delete(f"{TOKEN}/{urllib.parse.quote(token['AccessorID'])}")
