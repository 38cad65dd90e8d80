"""Reads the JSON of previews, which is 44 MB for five thousand resources."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json


def read_json(text: str) -> Any:
    """Raises ValueError, with the standard library's message."""
    try:
        return from_json(text)  # twice as fast as json.loads
    except ValueError:
        return json.loads(text)  # a lone surrogate is refused there and accepted here
