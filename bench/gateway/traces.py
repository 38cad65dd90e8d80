"""Requests that gateways are compared with: pure, and the same for the same seed.

A text is made of words of 7 characters and a space, which the simulated engine counts as one token
each (services/engine_sim/simulator/text.py). `salt` changes every word and nothing else: who comes
after whom, and what has a beginning in common. So two runs of one trace share no cached block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

WORD_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`after` is the position of the request that must be answered before: a conversation's
    previous turn."""

    messages: tuple[Message, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """`warm_up` is sent before and not measured."""

    requests: tuple[Request, ...]
    warm_up: tuple[Request, ...] = ()


class Words:
    """Endless text. Two texts share no beginning."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)

    def text(self, tokens: int) -> str:
        digits = self._chance.randbytes(tokens * WORD_BYTES // 2).hex()
        starts = range(0, len(digits), WORD_BYTES)
        return "".join(f"{digits[start : start + WORD_BYTES - 1]} " for start in starts)


def many_groups(order: random.Random, words: Words) -> Trace:
    """150 groups of 5 requests: a prefix of 6 kB that a group shares, and questions of 0.5 kB."""
    prefixes = [words.text(768) for _ in range(150)]
    asked = [prefix for prefix in prefixes for _ in range(5)]
    order.shuffle(asked)
    return Trace(requests=tuple(_question(prefix, words.text(64)) for prefix in asked))


def multi_turn(order: random.Random, words: Words) -> Trace:
    """120 conversations of 6 turns under one system prompt of 4 kB; a turn adds 0.5 kB of a
    question to what was said, and the next one 0.5 kB of an answer."""
    system = Message(role="system", content=words.text(512))
    said: dict[int, list[Message]] = {number: [system] for number in range(120)}
    last: dict[int, int] = {}
    turns = [number for number in said for _ in range(6)]
    order.shuffle(turns)
    requests = []
    for position, number in enumerate(turns):
        said[number].append(Message(role="user", content=words.text(64)))
        requests.append(Request(messages=tuple(said[number]), after=last.get(number)))
        said[number].append(Message(role="assistant", content=words.text(64)))
        last[number] = position
    return Trace(requests=tuple(requests))


def one_hot(order: random.Random, words: Words) -> Trace:
    """400 requests, of which 60 % share one prefix of 4 kB; the others share 40 such prefixes."""
    return _one_hot(order, words, warm_up=0)


def one_hot_warm(order: random.Random, words: Words) -> Trace:
    """The same, after 100 such requests."""
    return _one_hot(order, words, warm_up=100)


def _one_hot(order: random.Random, words: Words, *, warm_up: int) -> Trace:
    hot, *others = (words.text(512) for _ in range(41))

    def asked(count: int) -> tuple[Request, ...]:
        prefixes = [hot] * (count * 6 // 10)
        prefixes += [others[number % 40] for number in range(count - len(prefixes))]
        order.shuffle(prefixes)
        return tuple(_question(prefix, words.text(64)) for prefix in prefixes)

    return Trace(warm_up=asked(warm_up), requests=asked(400))


def uniform(_order: random.Random, words: Words) -> Trace:
    """400 requests of 2 kB that share nothing."""
    return Trace(requests=tuple(_question(words.text(192), words.text(64)) for _ in range(400)))


def thrash(order: random.Random, words: Words) -> Trace:
    """192 groups of 3 requests that share 20 kB: 2.5 times what all caches hold together."""
    prefixes = [words.text(2560) for _ in range(192)]
    asked = [prefix for prefix in prefixes for _ in range(3)]
    order.shuffle(asked)
    return Trace(requests=tuple(_question(prefix, words.text(64)) for prefix in asked))


def uneven(order: random.Random, words: Words) -> Trace:
    """24 sessions of 200 requests, each a session's 52 kB and a question, after 500 such ones each:
    half a minute, in which weights can move. All of them fit in all caches together, but not where
    chance has put most of them."""
    prefixes = [words.text(6500) for _ in range(24)]

    def asked(count: int) -> tuple[Request, ...]:
        each = [prefix for prefix in prefixes for _ in range(count)]
        order.shuffle(each)
        return tuple(_question(prefix, words.text(64)) for prefix in each)

    return Trace(warm_up=asked(500), requests=asked(200))


def long_prompts(order: random.Random, words: Words) -> Trace:
    """64 requests of 220 kB: 16 documents with 4 questions each."""
    documents = [words.text(27_500) for _ in range(16)]
    asked = [document for document in documents for _ in range(4)]
    order.shuffle(asked)
    return Trace(requests=tuple(_question(document, words.text(64)) for document in asked))


TRACES: Mapping[str, Callable[[random.Random, Words], Trace]] = {
    "groups": many_groups,
    "turns": multi_turn,
    "hot": one_hot,
    "hot-warm": one_hot_warm,
    "uniform": uniform,
    "thrash": thrash,
    "uneven": uneven,
    "long": long_prompts,
}


def trace(name: str, *, seed: int, salt: str) -> Trace:
    return TRACES[name](random.Random(f"{seed}/{name}"), Words(f"{seed}/{name}/{salt}"))


def unrelated(count: int, *, salt: str) -> tuple[Request, ...]:
    """Short requests that open connections and share nothing with any trace."""
    words = Words(f"unrelated/{salt}")
    return tuple(_question(words.text(8), words.text(8)) for _ in range(count))


def tokens(requests: Iterable[Request]) -> int:
    """Of the contents of all messages."""
    return sum(
        len(message.content) // WORD_BYTES for request in requests for message in request.messages
    )


def distinct_tokens(requests: Sequence[Request]) -> int:
    """How many an unlimited cache would have to hold."""
    seen = {
        request.messages[: length + 1]
        for request in requests
        for length in range(len(request.messages))
    }
    return sum(len(messages[-1].content) // WORD_BYTES for messages in seen)


def _question(prefix: str, question: str) -> Request:
    return Request(
        messages=(Message(role="system", content=prefix), Message(role="user", content=question))
    )
