"""The traces of bench/gateway: what they share, and that they can be repeated."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from bench.gateway.traces import (
    TRACES,
    Request,
    Trace,
    Words,
    distinct_tokens,
    tokens,
    trace,
    unrelated,
)


def made(name: str, salt: str = "a") -> Trace:
    return trace(name, seed=1, salt=salt)


def prefix(request: Request) -> str:
    return request.messages[0].content


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_can_be_repeated(name: str) -> None:
    assert made(name) == made(name)


@pytest.mark.parametrize("name", TRACES)
def test_a_salt_changes_every_text_and_nothing_else(name: str) -> None:
    first, second = made(name), made(name, "b")
    texts = [
        {message.content for request in each.requests for message in request.messages}
        for each in (first, second)
    ]
    assert not texts[0] & texts[1]
    for one, other in zip(first.requests, second.requests, strict=True):
        assert one.after == other.after
        assert [m.role for m in one.messages] == [m.role for m in other.messages]
        assert [len(m.content) for m in one.messages] == [len(m.content) for m in other.messages]
    assert distinct_tokens(first.requests) == distinct_tokens(second.requests)


def test_a_word_is_one_token_of_the_simulated_engine() -> None:
    words = Words("any").text(1000).split(" ")
    assert {len(word) for word in words[:-1]} == {7}
    assert words[-1] == ""


def test_groups_share_their_prefix_and_ask_different_questions() -> None:
    requests = made("groups").requests
    assert Counter(Counter(map(prefix, requests)).values()) == {5: 150}
    assert len({request.messages[-1].content for request in requests}) == 750
    neighbours = itertools.pairwise(requests)
    assert sum(prefix(one) == prefix(other) for one, other in neighbours) < 30  # they are mixed


def test_a_turn_repeats_the_one_before_and_waits_for_it() -> None:
    requests = made("turns").requests
    assert len({prefix(request) for request in requests}) == 1
    later = [request for request in requests if request.after is not None]
    assert len(requests) - len(later) == 120
    for position, request in enumerate(requests):
        if request.after is not None:
            assert request.after < position
            before = requests[request.after].messages
            assert request.messages[: len(before)] == before
            assert [m.role for m in request.messages[len(before) :]] == ["assistant", "user"]


@pytest.mark.parametrize("name", ["hot", "hot-warm"])
def test_three_fifths_share_one_prefix(name: str) -> None:
    shares = Counter(map(prefix, made(name).requests))
    assert shares.most_common(1)[0][1] == 240
    assert sorted(shares.values())[:-1] == [4] * 40


def test_only_the_warm_trace_has_its_prefixes_sent_before() -> None:
    assert made("hot").warm_up == ()
    warm = made("hot-warm")
    assert {*map(prefix, warm.requests)} == {*map(prefix, warm.warm_up)}
    assert not {*warm.warm_up} & {*warm.requests}


def test_nothing_is_shared_in_the_uniform_trace() -> None:
    requests = made("uniform").requests
    assert distinct_tokens(requests) == tokens(requests)
    assert len({prefix(request)[:8] for request in requests}) == len(requests)


def test_long_prompts_have_220_kilobytes() -> None:
    assert {tokens([request]) * 8 // 1000 for request in made("long").requests} == {220}


def test_what_opens_connections_shares_nothing_with_a_trace() -> None:
    assert not {*map(prefix, unrelated(64, salt="a"))} & {*map(prefix, made("uniform").requests)}
