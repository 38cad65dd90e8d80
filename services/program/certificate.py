"""A certificate with its key and the authority that it and its peers belong to, as three files."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from program.errors import InputError

AUTHORITY, CERTIFICATE, KEY = FILES = ("ca.pem", "cert.pem", "key.pem")


def of_operator(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the operator's certificate in this environment."""
    return Path(environment.get("SLIPWAY_RUN", "")) / "operator"


def of_agent(folder: Path) -> Path:
    """The folder of the certificate of the agent in `folder`."""
    return folder / "certificate"


class NamedServer(ssl.SSLContext):
    """Verifies the server's certificate for `server_name` instead of the address connected to."""

    server_name = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def client_context(folder: Path, server_name: str = "") -> ssl.SSLContext:
    """Trusts only the platform's own authority, and shows the certificate to servers. Verifies
    servers by their address, or by `server_name`. Raises InputError if a file is missing or
    unreadable.
    """
    context = NamedServer(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = server_name
    try:
        context.load_verify_locations(str(folder / AUTHORITY))
        # The authority may be an intermediate.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    except OSError as error:  # SSLError is one
        raise InputError(f"the certificate in {folder} cannot be read: {error}") from None
    return context
