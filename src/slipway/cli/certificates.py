"""The certificates that HTTP clients trust, and the one that they show."""

# ruff: noqa: PLC0415 - each command loads only the libraries it needs

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"


@cache
def trusted() -> ssl.SSLContext:
    """The machine's certificates. Read once: reading takes longer than a local request."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def platform(operator: Path, server_name: str = "") -> ssl.SSLContext:
    """Only the environment's own authority, and the operator's certificate for its agents, which
    are verified by their address, or by `server_name`.

    `operator` is the folder of both. Before the first `up` has written it, the machine's
    certificates are trusted, none of which is the platform's: its agents are out of reach then.
    """
    import ssl

    if not (operator / KEY).is_file():
        return trusted()
    context = ssl.create_default_context(cafile=str(operator / AUTHORITY))
    context.load_cert_chain(operator / CERTIFICATE, operator / KEY)
    if server_name:
        by_address = context.wrap_socket
        context.wrap_socket = lambda *given, **options: by_address(  # type: ignore[method-assign]
            *given, **{**options, "server_hostname": server_name}
        )
    return context


def tool_variables(operator: Path) -> dict[str, str]:
    """What makes Pulumi's providers and the tools of Consul and Nomad use the operator's
    certificate."""
    files = [str(operator / name) for name in (AUTHORITY, CERTIFICATE, KEY)]
    names = ("CACERT", "CLIENT_CERT", "CLIENT_KEY")
    return {
        f"{tool}_{name}": file
        for tool in ("CONSUL", "NOMAD")
        for name, file in zip(names, files, strict=True)
    }
