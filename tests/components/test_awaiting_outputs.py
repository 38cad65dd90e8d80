"""The end of a program waits for its outputs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pulumi.runtime import stack
from pulumi.runtime.settings import SETTINGS

from stacks import awaiting_outputs
from stacks.awaiting_outputs import await_outputs_together
from tests.waiting import HANG_S

OUTPUTS = 20


@pytest.fixture(autouse=True)
def outputs_together() -> Iterator[None]:
    before = stack.asyncio  # type: ignore[attr-defined]
    await_outputs_together()
    yield
    stack.asyncio = before  # type: ignore[attr-defined]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of outputs of each wait."""
    seen = list[int]()
    really = asyncio.wait

    async def counted(tasks: list[asyncio.Task[None]], **options: Any) -> object:
        seen.append(len(tasks))
        return await really(tasks, **options)

    monkeypatch.setattr(asyncio, "wait", counted)
    monkeypatch.setattr(awaiting_outputs, "LOOK_AGAIN_S", HANG_S)
    return seen


async def ended(awaited: Callable[[], list[Awaitable[None]]]) -> None:
    SETTINGS.outputs.clear()
    SETTINGS.outputs.update(asyncio.ensure_future(output) for output in awaited())
    await stack.wait_for_rpcs()


def test_outputs_that_are_ready_one_after_the_other_are_waited_for_once(waits: list[int]) -> None:
    ready = list[int]()

    async def output(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        ready.append(number)

    asyncio.run(ended(lambda: [output(number) for number in range(OUTPUTS)]))
    assert ready == list(range(OUTPUTS))
    assert waits == [OUTPUTS]


def test_an_output_that_fails_ends_the_program_while_others_are_not_ready() -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def fails() -> None:
        raise LookupError("no such host")

    with pytest.raises(LookupError, match="no such host"):
        asyncio.run(ended(lambda: [never(), fails(), never()]))


@pytest.mark.parametrize("ends_badly", ["fails later", "is cancelled"])
def test_an_output_that_comes_up_meanwhile_or_is_cancelled_is_noticed(ends_badly: str) -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def fails() -> None:
        raise LookupError("no such host")

    async def makes_another() -> None:
        SETTINGS.outputs.add(asyncio.ensure_future(fails()))

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    output = makes_another if ends_badly == "fails later" else cancels_itself
    with pytest.raises((LookupError, asyncio.CancelledError)):
        asyncio.run(ended(lambda: [never(), output(), never()]))
