"""The credentials of a source, which Nomad puts into the task's folder of secrets."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from preparation.document import Access, HubSource, WeightsDocument
from preparation.errors import SourceError

FILE = "SLIPWAY_CREDENTIALS"  # environment variable: the path of the file
OF_THE_HUB = ("token",)
OF_A_BUCKET = ("access_key_id", "secret_access_key")


def credentials_of(document: WeightsDocument) -> Mapping[str, str] | None:
    """None where the document names none, or where this is no task of Nomad's: then the clients
    look for those of the host or the user.

    Raises SourceError if the variable lacks something, or if they would travel in plain text.
    """
    access = document.access
    needed = OF_THE_HUB if isinstance(document.source, HubSource) else OF_A_BUCKET
    file = os.environ.get(FILE)
    if access.credentials is None:
        return None
    _check_endpoint(access)
    if file is None:
        return None
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    missing = [name for name in needed if not content.get(name)]
    if missing:
        items = " ".join(f"{name}=…" for name in needed)
        raise SourceError(
            "source.credentials",
            f"the Nomad variable {access.credentials} is missing, or lacks {', '.join(missing)}",
            fix=f"nomad var put -force {access.credentials} {items}",
        )
    return content  # type: ignore[no-any-return]


def is_encrypted(access: Access) -> bool:
    """Whether nobody on the way can read what is sent there."""
    url = urlsplit(access.endpoint or "https://")
    return url.scheme == "https" or _is_loopback(url.hostname or "")


def _check_endpoint(access: Access) -> None:
    if not is_encrypted(access):
        raise SourceError(
            "source.endpoint",
            f"{access.endpoint} would get the credentials in plain text",
            fix="use https://, or leave source.credentials out",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
