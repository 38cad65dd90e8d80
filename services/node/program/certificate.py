"""A certificate with its key and the authority that it and its peers belong to, as three files."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from program.errors import InputError

AUTHORITY, CERTIFICATE, KEY = FILES = ("ca.pem", "cert.pem", "key.pem")


def of_operator(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the operator's certificate in this environment."""
    return Path(environment.get("SLIPWAY_RUN", "")) / "operator"


def of_agent(folder: Path) -> Path:
    """The folder of the certificate of the agent in `folder`."""
    return folder / "certificate"


def client_context(folder: Path) -> ssl.SSLContext:
    """Trusts only the platform's own authority, and shows the certificate to servers.

    Raises InputError if a file is missing or unreadable.
    """
    try:
        context = ssl.create_default_context(cafile=str(folder / AUTHORITY))
        context.verify_flags |= (
            ssl.VERIFY_X509_PARTIAL_CHAIN
        )  # the authority may be an intermediate
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    except OSError as error:  # SSLError is one
        raise InputError(f"the certificate in {folder} cannot be read: {error}") from None
    return context
