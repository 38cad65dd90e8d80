"""Which of several attempts wins, and what becomes of the others."""

from __future__ import annotations

import asyncio

import pytest

from cli.reach.race import AllFailedError, first

LONG_S = 60.0


async def never() -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def refused() -> str:
    raise ConnectionRefusedError("refused")


async def answered() -> str:
    return "answered"


async def ignored(_: str) -> None:
    pass


def test_a_second_attempt_is_not_begun_while_the_first_has_its_head_start() -> None:
    begun = []

    async def second() -> str:
        begun.append("second")
        return "second"

    assert asyncio.run(first([answered, second], ignored, head_start_s=LONG_S)) == (0, "answered")
    assert not begun


def test_a_failed_attempt_is_followed_at_once() -> None:
    assert asyncio.run(first([refused, answered], ignored, head_start_s=LONG_S)) == (1, "answered")


def test_a_silent_attempt_is_overtaken_after_its_head_start() -> None:
    assert asyncio.run(first([never, answered], ignored, head_start_s=0.01)) == (1, "answered")


def test_what_a_late_attempt_has_made_is_discarded() -> None:
    discarded = []

    async def late() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"  # it was done when it was told to stop
        raise AssertionError

    async def discard(made: str) -> None:
        discarded.append(made)

    assert asyncio.run(first([late, answered], discard, head_start_s=0.01)) == (1, "answered")
    assert discarded == ["late"]


def test_every_failure_is_told_in_the_order_of_the_attempts() -> None:
    async def reset() -> str:
        raise ConnectionResetError("reset")

    with pytest.raises(AllFailedError, match="refused; reset"):
        asyncio.run(first([refused, reset], ignored, head_start_s=LONG_S))
