"""Synthetic traces that imitate two published ones. The same seed gives the same trace.

They are generated from the facts named below and contain no line of the originals.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.trace import HASH_TOKENS

Line = Mapping[str, Any]


def mooncake_like(*, requests: int, duration_s: float, seed: int) -> Iterator[Line]:
    """Tool and agent traffic: long prompts, short answers, Poisson arrivals.

    Every prompt begins with one of a few system prompts, whose popularity falls as 1/rank. Almost
    half continue a recent prompt (an agent's next turn); the others are new after it. The target
    figures are those of Mooncake's tool and agent trace (Qin et al., FAST25, table 1): 8,596
    prompt tokens, 182 answer tokens, 59 % of the prompt found in an unlimited cache.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    fresh_ids = iter(range(1 << 62))
    systems = [[next(fresh_ids) for _ in range(chance.randint(2, 10))] for _ in range(24)]
    popularity = [1 / rank for rank in range(1, len(systems) + 1)]
    recent: list[list[int]] = []
    now_ms = 0.0
    for _ in range(requests):
        now_ms += chance.expovariate(requests / duration_s / 1000)
        continues = bool(recent) and chance.random() < 0.46
        begin = chance.choice(recent) if continues else chance.choices(systems, popularity)[0]
        grown = _lognormal(chance, median=700 if continues else 3750, sigma=0.9, at_most=48_000)
        tokens = len(begin) * HASH_TOKENS + grown
        ids = [*begin, *(next(fresh_ids) for _ in range(-(-grown // HASH_TOKENS)))]
        recent.append(ids[: tokens // HASH_TOKENS])
        del recent[:-400]  # an agent's next turn comes soon or not at all
        yield {
            "timestamp": round(now_ms),
            "input_length": tokens,
            "output_length": _lognormal(chance, median=110, sigma=1.0, at_most=2000),
            "hash_ids": ids,
        }


def burstgpt_like(*, requests: int, duration_s: float, seed: int) -> Iterator[Line]:
    """Chat traffic in bursts: gaps between requests follow a Gamma distribution of shape 0.3.

    BurstGPT (Wang et al., KDD 2025) fits such gaps with Gamma distributions; the shape and the
    lengths here, about 530 prompt and 255 answer tokens, are chosen, not fitted. A third of the
    requests are the next turn of a session: the whole conversation so far and a question.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    shape = 0.3
    mean_gap_ms = duration_s * 1000 / requests
    open_sessions: list[tuple[str, int, float]] = []  # name, tokens so far, not before
    now_ms = 0.0
    for number in range(requests):
        now_ms += chance.gammavariate(shape, mean_gap_ms / shape)
        able = [index for index, each in enumerate(open_sessions) if each[2] <= now_ms]
        if able and chance.random() < 0.33:
            name, said, _ = open_sessions.pop(chance.choice(able))
        else:
            name, said = f"s{number}", 0
        asked = said + _lognormal(chance, median=190, sigma=1.1, at_most=6000)
        answer = _lognormal(chance, median=170, sigma=0.9, at_most=2000)
        if asked + answer < 8000:
            pause_ms = chance.expovariate(1 / 30_000) + 100.0 * answer
            open_sessions.append((name, asked + answer, now_ms + pause_ms))
            del open_sessions[:-200]
        yield {
            "timestamp": round(now_ms),
            "input_length": asked,
            "output_length": answer,
            "session": name,
        }


GENERATORS = {"mooncake": mooncake_like, "burstgpt": burstgpt_like}


def _lognormal(chance: random.Random, *, median: float, sigma: float, at_most: int) -> int:
    return min(at_most, max(1, round(chance.lognormvariate(math.log(median), sigma))))
