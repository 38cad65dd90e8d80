"""Bodies of requests, of a limited length."""

from __future__ import annotations

from starlette.requests import Request


class TooLongError(Exception):
    """The body is longer than it may be."""


async def body_within(request: Request, most: int) -> bytes:
    """The body; counted as it comes, since a header may not tell its length. Raises TooLongError
    if it has more than `most` bytes."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise TooLongError
    return bytes(body)
