"""One streamed answer and its times."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from cli.errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer as it arrived: text, or at the end the engine's own token count."""

    text: str = ""
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`ttft_s` is the time from the request to the first text. `tokens` is the engine's count, or
    the number of pieces where it gives none (engines send one token per piece)."""

    text: str
    tokens: int
    pieces: int
    ttft_s: float
    total_s: float

    @property
    def tokens_per_s(self) -> float:
        """The rate after the first token; 0 where there was only one."""
        rest_s = self.total_s - self.ttft_s
        return (self.tokens - 1) / rest_s if self.tokens > 1 and rest_s > 0 else 0.0


class NoAnswerError(CliError):
    """The gateway answered with an error, or with a stream without any text."""


class TimedStream:
    """A stream with the times of its texts; `answer` is known when `texts` has ended."""

    def __init__(
        self, pieces: AsyncIterator[Piece], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pieces, self._now_s = pieces, now_s
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        if self._answer is None:
            raise ValueError("the stream has not ended")
        return self._answer

    async def texts(self) -> AsyncIterator[str]:
        """Each text as it arrives. Raises NoAnswerError."""
        started_s = last_s = self._now_s()
        first_s: float | None = None
        texts, counted = list[str](), None
        async for piece in self._pieces:
            if piece.tokens is not None:
                counted = piece.tokens
            if piece.text:
                last_s = self._now_s()
                first_s = last_s if first_s is None else first_s
                texts.append(piece.text)
                yield piece.text
        if first_s is None:
            raise NoAnswerError(
                "the stream ended without any text", fix="see slipway logs and status"
            )
        self._answer = Answer(
            text="".join(texts),
            tokens=counted or len(texts),
            pieces=len(texts),
            ttft_s=first_s - started_s,
            total_s=last_s - started_s,
        )


async def collect(
    pieces: AsyncIterator[Piece],
    show: Callable[[str], None] = lambda _text: None,
    now_s: Callable[[], float] = time.monotonic,
) -> Answer:
    """Reads a stream to its end, handing each text to `show` as it arrives."""
    stream = TimedStream(pieces, now_s)
    async for text in stream.texts():
        show(text)
    return stream.answer
