"""The certificates that HTTP clients trust."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """The machine's certificates. Read once: reading takes longer than a local request."""
    return httpx.create_ssl_context(trust_env=False)
