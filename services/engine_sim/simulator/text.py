"""Text of the simulated model: a pure function of the prompt, so a reader can check a stream.

An answer is `simulated: <digest> w3 w4 …`. Tokens 0 and 1 say that the answer is simulated, token 2
is the first 8 hex digits of the prompt's SHA-256, token i is `w<i>`, each word followed by a space.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass

_TOKEN = re.compile(r"\s+|\S{1,8}\s?")
_SIMULATED = ("simulate", "d: ")  # a token has at most 8 characters before its space


def tokenise(text: str) -> tuple[int, ...]:
    """Token ids of a text: pieces of up to 8 characters with the space after them.

    Texts with a common beginning have the same first tokens, and every word of an answer is exactly
    one token: a conversation sent back finds its earlier turns in the prefix cache.
    """
    return tuple(map(_token_id, _TOKEN.findall(text)))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a prompt: endless, or of as many tokens as a document has."""

    opening: tuple[str, ...]
    length: int | None = None

    def word(self, index: int) -> str:
        return self.opening[index] if index < len(self.opening) else f"w{index} "

    def text(self, start: int, stop: int) -> str:
        """Tokens `start` to `stop` (exclusive) as text."""
        return "".join(map(self.word, range(start, stop)))

    def token(self, index: int) -> int:
        return _token_id(self.word(index))


def answer(prompt: str) -> Answer:
    digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:8] + " "
    return Answer((*_SIMULATED, digest))


def document(text: str) -> Answer:
    """An answer that is this text: a document, or the arguments of a tool's call."""
    pieces = tuple(_TOKEN.findall(text))
    return Answer(pieces, len(pieces))


def _token_id(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass"))


class StopStrings:
    """Cuts a stream of text before the first stop string.

    Text that may be the start of a stop string is kept back until it is clear that it is not.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.found: str | None = None  # the one that ended the text
        self._stops = stops
        self._keep = max(map(len, stops), default=1) - 1
        self._held = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """The text that may be sent now, and whether a stop string was found."""
        self._held += text
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, self.found = min(found)
            ready, self._held = self._held[:at], ""
            return ready, True
        cut = len(self._held) - self._keep
        if cut <= 0:
            return "", False
        ready, self._held = self._held[:cut], self._held[cut:]
        return ready, False

    def rest(self) -> str:
        """The text kept back, when the stream ends without a stop string."""
        ready, self._held = self._held, ""
        return ready
