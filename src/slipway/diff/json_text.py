"""JSON as previews write it, 44 MB of it for five thousand resources."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json


def read_json(text: str) -> Any:
    """Raises ValueError, with the standard library's words."""
    try:
        return from_json(text)  # twice as fast as json.loads
    except ValueError:
        return json.loads(text)  # half a surrogate pair is no text there, and is here
