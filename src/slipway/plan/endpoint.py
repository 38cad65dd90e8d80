"""Where something listens."""

from __future__ import annotations

from dataclasses import dataclass, replace

PLATFORM = "platform"
SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where something listens and how to speak to it. Addresses are rendered nowhere else.

    `host` is "" where it is not known before the host exists. `ca` is the authority that signed its
    certificate, "" without TLS; `server_name` is the name in that certificate, "" where clients
    verify the host.
    """

    scheme: str  # "http" | "https"
    host: str
    port: int
    server_name: str = ""
    # PLATFORM: the environment's own; SYSTEM: those that the machine trusts; else a file of them
    ca: str = ""

    @property
    def authority(self) -> str:
        """ "127.77.0.1:8500"; ValueError where the host is not known"""
        if not self.host:
            raise ValueError(f"the host of port {self.port} is not known before it exists")
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """ "http://127.77.0.1:8500", without a path; ValueError where the host is not known"""
        return f"{self.scheme}://{self.authority}"

    def at(self, host: str) -> Endpoint:
        """The same service on another host."""
        return replace(self, host=host)
