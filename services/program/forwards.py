"""Addresses that the operator's machine reaches through SSH (schemas/forwards.schema.json).

`slipway` lists its forwards in SLIPWAY_FORWARDS for the programs that it starts. A server is
verified by a name, because its certificate does not have the operator's addresses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from program.addresses import url
from program.errors import InputError

VARIABLE = "SLIPWAY_FORWARDS"
VERSIONS = (1,)


@dataclass(frozen=True)
class Way:
    """Where to connect to (a URL without a path), and the name in the server's certificate; "" if
    the certificate has the address."""

    address: str
    server_name: str = ""


def way_to(address: str, environment: Mapping[str, str] = os.environ) -> Way:
    """The way to an address ("https://10.0.0.1:8501"): itself if it is not forwarded."""
    text = environment.get(VARIABLE)
    if not text:
        return Way(address)
    try:
        document = json.loads(text)
        if document["schema_version"] not in VERSIONS:
            raise InputError(f"{VARIABLE} has schema_version {document['schema_version']}")
        parts = urlsplit(address)
        forward = document["forwards"].get(parts.netloc)
        if forward is None:
            return Way(address)
        return Way(url(parts.scheme, forward["at"]), forward["server_name"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{VARIABLE} does not follow schemas/forwards.schema.json: {error!r}"
        ) from None
