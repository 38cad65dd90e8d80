"""JSON files whose top is a mapping."""

from __future__ import annotations

import json
from pathlib import Path

from slipway.config.errors import ConfigError, Problem

from .keys import Keys

DOWNLOAD = "download the file again"


def read_json(file: Path, source: str) -> Keys:
    """The keys of `file`, which messages call `source`. Raises ConfigError."""
    try:
        return parse_json(file.read_bytes(), source)
    except OSError as error:
        raise refused(source, f"cannot be read: {error.strerror}", "check the path") from None


def parse_json(text: bytes, source: str) -> Keys:
    """The keys of a mapping in UTF-8. Raises ConfigError."""
    try:
        values = json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise refused(source, f"is not JSON: {error}", DOWNLOAD) from None
    except RecursionError:
        raise refused(source, "is nested too deeply", DOWNLOAD) from None
    if not isinstance(values, dict):
        raise refused(source, "must be a mapping of keys to values", DOWNLOAD)
    return Keys(source=source, values=values)


def refused(source: str, message: str, fix: str = DOWNLOAD) -> ConfigError:
    """The error for a file as a whole."""
    return ConfigError([Problem(source=source, key="", message=message, fix=fix)])
