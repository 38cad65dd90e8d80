"""The names of the one port: each of the platform's own pages has an origin for itself.

Those pages expect to be at /ui and to be alone. Browsers resolve every name below localhost to this
machine (RFC 6761, section 6.3), and give each its own cookies, storage and policy.
"""

from __future__ import annotations

from dataclasses import dataclass

ADDRESS = "127.0.0.1"
PROXIED = ("nomad", "consul", "prometheus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`upstream` is "" for the page itself."""

    host: str  # as in a Host header, with the port
    upstream: str

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host: its name has the port."""
        return f"slipway-{self.host.rpartition(':')[2]}"


def origins(port: int) -> dict[str, Origin]:
    """By the only Host headers that are answered: a page elsewhere whose name was made to lead here
    (DNS rebinding) has another."""
    front = Origin(host=f"{ADDRESS}:{port}", upstream="")
    others = [Origin(host=f"{name}.localhost:{port}", upstream=name) for name in PROXIED]
    return {origin.host: origin for origin in (front, *others)}
