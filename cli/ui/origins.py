"""The names of the one port: each of the platform's own pages has an origin for itself.

Those pages expect to be at /ui and to be alone. Browsers resolve every name below localhost to this
machine (RFC 6761, section 6.3), and give each its own cookies, storage and policy. They send
cookies to all ports of a name: nobody else on this machine can guess the names of a run, and lead
a browser to them on a port of their own.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

ADDRESS = "127.0.0.1"
PROXIED = ("nomad", "consul", "prometheus")
COOKIE = "slipway"
NAME_BYTES = 8
HTTP_PORT = 80  # browsers leave it out of Host and Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`upstream` is "" for the page itself."""

    host: str  # as in a Host header, with the port
    upstream: str

    @property
    def url(self) -> str:
        return f"http://{self.host}"


def origins(port: int) -> dict[str, Origin]:
    """New names for a run, by the only Host headers that are answered: a page elsewhere whose name
    was made to lead here (DNS rebinding) has another."""
    run = secrets.token_hex(NAME_BYTES)
    shown = "" if port == HTTP_PORT else f":{port}"
    found = [
        Origin(host=f"{upstream or 'slipway'}-{run}.localhost{shown}", upstream=upstream)
        for upstream in ("", *PROXIED)
    ]
    return {origin.host: origin for origin in found}
