"""The steps of a measurement, and their end by Ctrl-C, on which asyncio cancels the main task
(tests/live/test_bench.py sends the signal)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from cli.bench.load import Run
from cli.bench.measurement import FIRST_QUESTIONS, Measurement, Step, measure, run_measurement
from cli.bench.outcome import Answered, Ask, Failed, Outcome
from cli.bench.workload import Prompt, Workload
from cli.errors import CliError

WORKLOAD = Workload(
    prompts=[Prompt(text=f"{number}", max_tokens=4) for number in range(100)], source="numbers"
)


class Counter:
    """A door whose clients answer at once, but for those prompts (by number) that `fail`, and that
    `stop` the measurement as Ctrl-C does and never answer. With `stop_connecting` a client does so
    before it has a connection."""

    def __init__(
        self, *, fail: Sequence[int] = (), stop: Sequence[int] = (), stop_connecting: bool = False
    ) -> None:
        self.asked: list[int] = []
        self.clients = self.most = self.in_flight = 0
        self.closed = False
        self.main: asyncio.Task[Measurement]
        self._fail, self._stop, self._stop_connecting = fail, stop, stop_connecting

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Ask]:
        self.clients += 1
        if self._stop_connecting:
            self.main.cancel()
            await asyncio.Event().wait()
        yield self._ask

    async def close(self) -> None:
        self.closed = True

    async def _ask(self, prompt: Prompt) -> Outcome:
        number = int(prompt.text)
        self.asked.append(number)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if number in self._stop:
            self.main.cancel()
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.in_flight -= 1
        if number in self._fail:
            return Failed(sent_s=0.0, ended_s=1.0, kind="HTTP 503", said="busy")
        return Answered(sent_s=0.0, first_s=0.5, last_s=1.0, output_tokens=4, input_tokens=2)


def step(clients: int, requests: int, protocol: str = "http") -> Step:
    return Step(protocol=protocol, clients=clients, requests=requests)


def measured(door: Counter, *steps: Step) -> Measurement:
    return run_measurement({"http": door}, steps, WORKLOAD, lambda _step, _run: None)


def stopped(door: Counter, *steps: Step) -> Measurement:
    async def main() -> Measurement:
        doors = {"http": Counter(), steps[-1].protocol: door}
        door.main = asyncio.create_task(measure(doors, steps, WORKLOAD, lambda _step, _run: None))
        return await door.main

    return asyncio.run(main())


def test_each_step_has_its_clients_and_the_next_prompts() -> None:
    door, told = Counter(), list[tuple[int, Run]]()
    steps = (step(1, 3), step(4, 8))
    found = run_measurement(
        {"http": door}, steps, WORKLOAD, lambda step, run: told.append((step.clients, run))
    )
    assert sorted(door.asked) == [*range(11), 99]  # the first question is the last prompt
    assert door.clients == 1 + 1 + 4
    assert door.most == 4
    assert door.closed
    assert [each.figures.answered for each in found.measured] == [3, 8]
    assert [clients for clients, _ in told] == [1, 4]
    assert [len(run.outcomes) for _, run in told] == [3, 8]
    assert not found.interrupted


def test_each_protocol_has_a_first_question() -> None:
    doors = {"http": Counter(), "grpc": Counter()}
    steps = [step(1, 2, "http"), step(2, 2, "http"), step(1, 2, "grpc")]
    run_measurement(doors, steps, WORKLOAD, lambda _step, _run: None)
    assert sorted(doors["http"].asked) == [0, 1, 2, 3, 99]
    assert sorted(doors["grpc"].asked) == [4, 5, 99]


def test_errors_are_counted_and_the_others_are_still_asked() -> None:
    (found,) = measured(Counter(fail=(1, 3)), step(2, 6)).measured
    assert (found.figures.requests, found.figures.answered) == (6, 4)
    assert found.figures.errors == {"HTTP 503": 2}
    assert found.figures.said == {"HTTP 503": "busy"}


def test_a_model_that_never_answers_is_not_measured() -> None:
    door = Counter(fail=(99,))
    with pytest.raises(CliError, match=f"{FIRST_QUESTIONS} first questions .* HTTP 503: busy"):
        measured(door, step(1, 1))
    assert door.asked == [99] * FIRST_QUESTIONS
    assert door.closed


def test_ctrl_c_ends_it_with_what_was_measured_so_far() -> None:
    door = Counter(stop=(7,))
    found = stopped(door, step(1, 3), step(2, 50), step(4, 8))
    assert found.interrupted
    whole, last = found.measured
    assert (whole.figures.requests, whole.interrupted) == (3, False)
    assert last.interrupted
    assert last.figures.requests == last.figures.answered
    # All that were asked have ended, but for those in flight.
    assert 3 + last.figures.requests + last.dropped + 1 == len(door.asked)
    assert 1 <= last.dropped <= 2


def test_what_was_measured_is_kept_when_another_protocol_never_answers() -> None:
    doors = {"http": Counter(), "grpc": Counter(fail=(99,))}
    steps = [step(1, 2), step(1, 2, "grpc")]
    found = run_measurement(doors, steps, WORKLOAD, lambda _step, _run: None)
    assert [each.figures.answered for each in found.measured] == [2]
    assert found.failed is not None
    assert "HTTP 503: busy" in found.failed.message
    assert not found.interrupted


@pytest.mark.parametrize(
    "door", [Counter(stop=(99,)), Counter(stop_connecting=True)], ids=["first", "connecting"]
)
def test_ctrl_c_between_two_steps_keeps_those_before(door: Counter) -> None:
    found = stopped(door, step(1, 2), step(1, 2, "grpc"))
    assert found.interrupted
    assert [each.figures.answered for each in found.measured] == [2]


def test_ctrl_c_before_anything_was_measured_is_an_interruption() -> None:
    with pytest.raises(asyncio.CancelledError):
        stopped(Counter(stop=(99,)), step(1, 3))
