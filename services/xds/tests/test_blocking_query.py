"""The rules of Consul's blocking queries, against a server that misbehaves on demand."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from control_plane.sources.blocking_query import BlockingQuery
from control_plane.sources.reachability import Reachability
from simulated_clock import now_s, simulated

FILTERED = "filtered by ACLs to nothing"


@dataclass
class FakeConsul:
    """Answers with (status, index, body) in turn and remembers the index of each question."""

    answers: deque[tuple[int, int, object]]
    asked: list[int] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(int(request.query["index"]))
        status, index, body = self.answers.popleft()
        headers = {"X-Consul-Index": str(index)}
        if body == FILTERED:
            body, headers["X-Consul-Results-Filtered-By-ACLs"] = [], "true"
        return web.json_response(body, status=status, headers=headers)


@contextlib.asynccontextmanager
async def fake_consul(*answers: tuple[int, int, object]) -> AsyncIterator[tuple[FakeConsul, str]]:
    consul = FakeConsul(deque(answers))
    app = web.Application()
    app.router.add_get("/{path:.*}", consul.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.94.0.4", 0).start()
    try:
        yield consul, "http://{}:{}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


async def read(*answers: tuple[int, int, object]) -> tuple[list[tuple[object, bool]], FakeConsul]:
    """(document, lost) of each answer that is yielded, until the server has no more."""
    expected = sum(s in (200, 404) and body != FILTERED for s, _, body in answers)
    async with fake_consul(*answers) as (consul, url), aiohttp.ClientSession(url) as session:
        query = BlockingQuery(session, "/v1/x", {}, Reachability(time.monotonic)).answers()
        seen = [await anext(query) for _ in range(expected)]
        await query.aclose()  # type: ignore[attr-defined]
    return [(answer.document, answer.lost) for answer in seen], consul


async def test_the_next_question_waits_for_a_change_after_the_last_index() -> None:
    seen, consul = await read((200, 7, ["a"]), (200, 9, ["b"]), (200, 9, ["b"]))

    assert seen == [(["a"], False), (["b"], False), (["b"], False)]
    assert consul.asked == [0, 7, 9]


async def test_an_index_that_goes_backwards_starts_over() -> None:
    _, consul = await read((200, 7, ["a"]), (200, 3, ["a"]), (200, 3, ["a"]))

    assert consul.asked == [0, 7, 0]


async def test_an_index_below_one_counts_as_one() -> None:
    _, consul = await read((200, 0, ["a"]), (200, 0, ["a"]))

    assert consul.asked == [0, 1]


@pytest.mark.parametrize("status", [500, 403, 429])
async def test_an_error_is_retried_from_the_start_and_never_seen(status: int) -> None:
    seen, consul = await read((200, 7, ["a"]), (status, 0, "no"), (200, 8, ["b"]))

    assert seen == [(["a"], False), (["b"], False)]
    assert consul.asked == [0, 7, 0]


async def test_an_answer_that_acls_filtered_to_nothing_is_an_error() -> None:
    seen, _ = await read((200, 7, ["a"]), (200, 8, FILTERED), (200, 9, ["b"]))

    assert seen == [(["a"], False), (["b"], False)]


async def test_not_found_is_an_answer() -> None:
    seen, _ = await read((404, 7, None))

    assert seen == [(None, False)]


async def test_an_empty_answer_with_a_lower_index_is_a_loss() -> None:
    """Also when the loss happened during an outage."""
    seen, _ = await read((200, 70, ["a"]), (500, 0, ""), (404, 5, None), (200, 6, []))

    assert seen == [(["a"], False), (None, True), ([], True)]


async def test_an_empty_answer_with_a_higher_index_is_a_deletion() -> None:
    seen, _ = await read((200, 70, ["a"]), (404, 71, None))

    assert seen == [(["a"], False), (None, False)]


async def test_after_a_loss_a_rebuilt_state_is_believed_again() -> None:
    seen, _ = await read((200, 70, ["a"]), (404, 5, None), (200, 6, ["b"]), (200, 7, []))

    assert seen == [(["a"], False), (None, True), (["b"], False), ([], False)]


class ChangingConsul:
    """A session whose every question is answered with a change at once."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    @contextlib.asynccontextmanager
    async def get(self, *_: object, **__: object) -> AsyncIterator[ChangingConsul]:
        self.asked_s.append(now_s())
        self.status, self.headers = 200, {"X-Consul-Index": str(len(self.asked_s))}
        yield self

    async def read(self) -> bytes:
        return b"[%d]" % len(self.asked_s)


def test_a_busy_path_is_asked_for_at_a_limited_rate() -> None:
    async def twelve_answers(consul: Any) -> None:
        query = BlockingQuery(consul, "/v1/x", {}, Reachability(now_s)).answers()
        for _ in range(12):
            await anext(query)

    consul = ChangingConsul()
    simulated(twelve_answers(consul))

    two_at_once_then_20_a_second = [0, *(number / 20 for number in range(11))]
    assert consul.asked_s == pytest.approx(two_at_once_then_20_a_second, abs=1e-6)
