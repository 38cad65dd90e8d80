"""Whom HTTP clients trust."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """The machine's certificates. Read once: that takes longer than a request on this machine."""
    return httpx.create_ssl_context(trust_env=False)
