"""How weights follow what engines report."""

from __future__ import annotations

from itertools import pairwise

import pytest
from control_plane.routing import EQUAL_WEIGHT, NEW_REPLICA_WEIGHT
from control_plane.weights.document import LOWEST, STEP
from control_plane.weights.signals import KV_USE, RUNNING, WAITING, Signal, signals
from control_plane.weights.weigher import KEPT_S, Weigher
from hypothesis import given
from hypothesis import strategies as st

IDLE, BUSY = Signal(0.0, 0.1), Signal(1.0, 1.0)
NAMES = ("a", "b", "c", "d")
INTERVAL_S = 5.0


def after(
    rounds: int,
    seen: dict[str, Signal],
    *,
    weigher: Weigher | None = None,
    current: dict[str, int] | None = None,
    start_s: float = 0.0,
) -> dict[str, int]:
    weigher = weigher or Weigher()
    weights = dict(current or {})
    for number in range(rounds):
        now_s = start_s + number * INTERVAL_S
        weights = weigher.weights([NAMES], weights, seen, now_s)
    return weights


def test_replicas_that_are_equally_busy_have_equal_weights() -> None:
    assert after(20, dict.fromkeys(NAMES, BUSY)) == dict.fromkeys(NAMES, EQUAL_WEIGHT)


def test_a_busier_replica_goes_down_by_single_steps_and_not_below_the_lowest() -> None:
    seen = {**dict.fromkeys(NAMES, IDLE), "a": BUSY}

    history = [after(rounds, seen)["a"] for rounds in range(1, 12)]

    assert history[0] == EQUAL_WEIGHT - STEP
    assert all(earlier - later in (0, STEP) for earlier, later in pairwise(history))
    assert history[-1] == LOWEST
    assert after(12, seen)["b"] == EQUAL_WEIGHT


def test_a_small_difference_moves_no_keys() -> None:
    seen = {**dict.fromkeys(NAMES, Signal(0.0, 0.5)), "a": Signal(0.0, 0.6)}

    assert after(50, seen) == dict.fromkeys(NAMES, EQUAL_WEIGHT)


def test_a_replica_that_is_no_longer_busier_comes_back() -> None:
    low = {**dict.fromkeys(NAMES, EQUAL_WEIGHT), "a": LOWEST}

    assert after(30, dict.fromkeys(NAMES, IDLE), current=low)["a"] == EQUAL_WEIGHT


def test_without_signals_weights_are_kept_and_then_fade_to_equal_ones() -> None:
    weigher = Weigher()
    seen = {**dict.fromkeys(NAMES, IDLE), "a": BUSY}
    low = after(12, seen, weigher=weigher)
    last_s = 11 * INTERVAL_S

    kept = weigher.weights([NAMES], low, {}, last_s + KEPT_S)
    fading = weigher.weights([NAMES], kept, {}, last_s + KEPT_S + 1)

    assert kept == low
    assert fading["a"] == LOWEST + STEP
    assert after(30, {}, weigher=weigher, current=low, start_s=1e3)["a"] == EQUAL_WEIGHT


def test_a_new_replica_beside_others_climbs_and_the_first_ones_do_not() -> None:
    first = dict.fromkeys(NAMES[:3], EQUAL_WEIGHT)
    idle = dict.fromkeys(NAMES, IDLE)

    assert Weigher().weights([NAMES], first, {}, 0.0)["d"] == NEW_REPLICA_WEIGHT
    assert after(2, idle, current=first)["d"] == NEW_REPLICA_WEIGHT + 2 * STEP
    assert after(20, idle, current=first)["d"] == EQUAL_WEIGHT
    assert after(1, {}) == dict.fromkeys(NAMES, EQUAL_WEIGHT)


def test_jobs_are_compared_with_themselves_only() -> None:
    busy, idle = ("a", "b"), ("c", "d")
    seen = {**dict.fromkeys(busy, BUSY), **dict.fromkeys(idle, IDLE)}

    weights = Weigher().weights([busy, idle], {}, seen, 0.0)

    assert weights == dict.fromkeys(NAMES, EQUAL_WEIGHT)


@given(
    rounds=st.lists(
        st.dictionaries(
            st.sampled_from(NAMES),
            st.builds(Signal, queue=st.floats(0, 1), kv_use=st.floats(0, 1)),
        ),
        max_size=30,
    )
)
def test_weights_are_whole_steps_within_bounds_and_never_jump(
    rounds: list[dict[str, Signal]],
) -> None:
    weigher, weights = Weigher(), dict.fromkeys(NAMES, EQUAL_WEIGHT)
    for number, seen in enumerate(rounds):
        before, weights = weights, weigher.weights([NAMES], weights, seen, number * INTERVAL_S)
        for name, weight in weights.items():
            assert LOWEST <= weight <= EQUAL_WEIGHT
            assert weight % STEP == 0
            assert abs(weight - before[name]) <= STEP


def _sample(name: str, replica: str, value: str, engine: str = "0") -> dict[str, object]:
    labels = {"__name__": name, "replica": replica, "engine": engine}
    return {"metric": labels, "value": [1.0, value]}


def test_signals_are_of_replicas_that_report_everything() -> None:
    found = signals(
        [
            _sample(WAITING, "a", "3"),
            _sample(RUNNING, "a", "4"),
            _sample(RUNNING, "a", "2", engine="1"),
            _sample(KV_USE, "a", "0.5"),
            _sample(KV_USE, "a", "0.9", engine="1"),
            _sample(WAITING, "b", "3"),
            _sample(WAITING, "c", "1"),
            _sample(RUNNING, "c", "1"),
            _sample(KV_USE, "c", "NaN"),
        ]
    )

    assert found == {"a": Signal(queue=0.5, kv_use=0.9)}


@pytest.mark.parametrize(("waiting", "queue"), [("0", 0.0), ("7", 1.0)])
def test_a_queue_is_a_share_also_where_nothing_runs(waiting: str, queue: float) -> None:
    samples = [_sample(WAITING, "a", waiting), _sample(RUNNING, "a", "0")]

    assert signals([*samples, _sample(KV_USE, "a", "1.2")]) == {"a": Signal(queue, 1.0)}
