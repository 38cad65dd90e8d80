"""The end of a program waits for its outputs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from pulumi.runtime import stack
from pulumi.runtime.settings import SETTINGS

from stacks.outputs import await_outputs_together

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

    async def counted(tasks: list[asyncio.Task[None]], return_when: str) -> object:
        seen.append(len(tasks))
        return await really(tasks, return_when=return_when)

    monkeypatch.setattr(asyncio, "wait", counted)
    return seen


async def ended(outputs: Callable[[], list[Awaitable[None]]]) -> None:
    SETTINGS.outputs.clear()
    SETTINGS.outputs.update(asyncio.ensure_future(output) for output in outputs())
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
