"""Documents that the Pulumi program passes to a host, each with a schema in schemas/.

A document is passed in SLIPWAY_DOCUMENT, its secrets as JSON on standard input: neither is ever on
a command line, and secrets are never in a file that others can read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from program.errors import InputError

JsonObject = dict[str, Any]

SECRETS_VERSION = 1


def read_document(version: int) -> JsonObject:
    """The JSON object in SLIPWAY_DOCUMENT, of this schema version or the previous one: during a
    change a newer program may get an older document."""
    text = os.environ.get("SLIPWAY_DOCUMENT")
    if not text:
        raise InputError("SLIPWAY_DOCUMENT is not set: it holds the JSON document to apply")
    return _versioned(text, "SLIPWAY_DOCUMENT", version)


def read_secrets() -> JsonObject:
    """The JSON object on standard input, its version checked."""
    return _versioned(sys.stdin.read(), "standard input", SECRETS_VERSION)


@contextmanager
def parsing(schema: str) -> Iterator[None]:
    """Report missing and unexpected keys of a document as an error in the document."""
    try:
        yield
    except (KeyError, TypeError) as error:
        raise InputError(f"the document does not follow schemas/{schema}: {error!r}") from None


def _versioned(text: str, source: str, newest: int) -> JsonObject:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{source} is not a JSON object")
    version = document.get("schema_version")
    accepted = range(max(1, newest - 1), newest + 1)
    if version not in accepted:
        known = " and ".join(str(each) for each in accepted)
        raise InputError(
            f"{source} has schema_version {version}; this host reads {known}. "
            "Use the program and its services from the same checkout."
        )
    return document
