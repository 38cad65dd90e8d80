"""Who may see the page: a browser that was given the token of the printed address, once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from cli.ui.origins import COOKIE, Origin

TOKEN_BYTES = 32
ENTER = "/enter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser's right to one origin. `csrf` is in the page's forms, where no other site can read
    it."""

    id: str
    csrf: str
    origin: Origin


@dataclass(kw_only=True)
class Sessions:
    """The tokens not used yet, and the sessions that were given for others. They end with the
    command: nothing is stored."""

    _tokens: dict[str, Origin] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)

    def token_for(self, origin: Origin) -> str:
        """Good for one session at this origin."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._tokens[token] = origin
        return token

    def exchange(self, token: str, origin: Origin) -> Session | None:
        """The session for a token, which is void from then on; None for one that is unknown, was
        used, or is for another origin."""
        if self._tokens.get(token) != origin:
            return None
        del self._tokens[token]
        session = Session(
            id=secrets.token_urlsafe(TOKEN_BYTES),
            csrf=secrets.token_urlsafe(TOKEN_BYTES),
            origin=origin,
        )
        self._sessions[session.id] = session
        return session

    def of(self, cookies: Mapping[str, str], origin: Origin) -> Session | None:
        """The session of a request to an origin; None without one there."""
        session = self._sessions.get(cookies.get(COOKIE, ""))
        return session if session is not None and session.origin == origin else None


def first_address(origins: Mapping[str, Origin], sessions: Sessions) -> str:
    """The address to open, with a token."""
    front = next(origin for origin in origins.values() if not origin.upstream)
    return f"{front.url}{ENTER}?token={sessions.token_for(front)}"
