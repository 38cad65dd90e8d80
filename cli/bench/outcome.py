"""What became of one request, in moments of one monotonic clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from cli.bench.workload import Prompt

# The kinds of errors that are not a status of the server.
CUT = "stream cut"
IN_STREAM = "error in the stream"
NO_TEXT = "no text"
TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that was answered to the end. `first_s` and `last_s` are when its first and its
    last text came; the numbers of tokens are the engine's."""

    sent_s: float
    first_s: float
    last_s: float
    output_tokens: int
    input_tokens: int | None = None

    @property
    def ended_s(self) -> float:
        return self.last_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request without a whole answer: the kind of its error, and what was said."""

    sent_s: float
    ended_s: float
    kind: str
    said: str = ""


Outcome = Answered | Failed
Ask = Callable[[Prompt], Awaitable[Outcome]]


class Door(Protocol):
    """One of the gateway's protocols."""

    def client(self) -> AbstractAsyncContextManager[Ask]:
        """A client with a connection, which asks one question at a time."""

    async def close(self) -> None:
        """Ends what its clients share."""
