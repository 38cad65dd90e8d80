"""Documents in Consul's KV, each under a key that ends in the name of its model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError


class BadDocumentError(ValueError):
    """An entry does not have a valid document. The message says where and why."""


class ModelDocument(Protocol):
    """A pydantic model with a field `model`."""

    @property
    def model(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Any: ...


Document = TypeVar("Document", bound=ModelDocument)


def document_from_kv(entry: Mapping[str, Any], prefix: str, kind: type[Document]) -> Document:
    """One KV entry (Key, base64 Value) under a prefix. Raises BadDocumentError."""
    key = str(entry["Key"])
    try:
        found: Document = kind.model_validate_json(
            base64.b64decode(entry["Value"] or "", validate=True)
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BadDocumentError(f"{key}: {where}: {first['msg']}") from error
    except binascii.Error as error:
        raise BadDocumentError(f"{key}: the value is not base64: {error}") from error
    if key != prefix + found.model:
        raise BadDocumentError(f"{key}: the key must end with the model's name, {found.model!r}")
    return found
