"""A refusal by AWS."""

from __future__ import annotations

import urllib.error

LONGEST_REASON = 500  # characters


class RefusedError(Exception):
    """AWS answered, and did not give what was asked for. Has AWS's own words, which contain no
    secret."""


def refusal(what: str, error: urllib.error.HTTPError) -> RefusedError:
    said = error.read().decode(errors="replace")[:LONGEST_REASON]
    return RefusedError(f"{what}{error.code} {said}")
