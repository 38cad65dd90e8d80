"""Who may see the page: a browser that was given the token of the printed address, once."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cli.ui.origins import COOKIE, Origin

TOKEN_BYTES = 32
ENTER = "/enter"
WAY_ON_S = 60.0  # a browser follows a redirect at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser's right to one origin. `csrf` is in the page's forms, where no other site can read
    it."""

    id: str
    csrf: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    origin: Origin
    until_s: float  # of the clock of Sessions


@dataclass(kw_only=True)
class Sessions:
    """The tokens not used yet, and the sessions that were given for others. They end with the
    command: nothing is stored."""

    now_s: Callable[[], float] = time.monotonic
    _tokens: dict[str, Token] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)

    def token_for(self, origin: Origin, lifetime_s: float = math.inf) -> str:
        """Good for one session at this origin, which begins within `lifetime_s`."""
        now_s = self.now_s()
        self._tokens = {key: each for key, each in self._tokens.items() if each.until_s > now_s}
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._tokens[token] = Token(origin=origin, until_s=now_s + lifetime_s)
        return token

    def exchange(self, token: str, origin: Origin) -> Session | None:
        """The session for a token, which is void from then on; None for one that is unknown, too
        old, was used, or is for another origin."""
        found = self._tokens.get(token)
        if found is None or found.origin != origin or found.until_s <= self.now_s():
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
