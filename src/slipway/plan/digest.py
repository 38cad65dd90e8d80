"""Digests of plan values: the same content gives the same name, whatever the order of keys."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; a dataclass is serialized as its fields."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_fields)


def digest(value: Any, *, length: int) -> str:
    """The first `length` hex characters of SHA-256 over the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a plan cannot hold a {type(value).__name__}")
