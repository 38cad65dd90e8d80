"""Whether something moves: the decision alone, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program.liveness.clock import LOOK_S, OwnClock
from program.liveness.progress import Progress, Seen
from program.liveness.stillness import Stillness, limit_s
from program.liveness.watcher import Part, Watcher

IDLE = Seen(0, 0)
LOOKS = st.lists(
    st.tuples(
        st.builds(Seen, st.integers(0, 3), st.integers(0, 3)), st.floats(0.01, 10, allow_nan=False)
    ),
    max_size=40,
)


@dataclass
class Engine:
    """What a watcher would see of an engine, and the time in which it looks."""

    now_s: float = 100.0
    seen: Seen = IDLE
    waited: dict[str, float] = field(default_factory=lambda: {"main": 0.0})

    def watcher(self, *, longest_step_s: float = 0.1, stall_s: float = 10) -> Watcher:
        part = Part(
            name="engine",
            seen=lambda: self.seen,
            limit_s=limit_s(longest_step_s),
            stall_s=stall_s,
        )
        return Watcher([part], OwnClock(lambda: dict(self.waited), lambda: self.now_s))

    def pass_time(self, watcher: Watcher, seconds: float, *, waiting: float = 0.0) -> Part | None:
        """Looks as often as it does; for a share of the time the engine waits for a processor."""
        stalled = None
        for _ in range(round(seconds / LOOK_S)):
            self.now_s += LOOK_S
            self.waited["main"] += LOOK_S * waiting
            stalled = watcher.look() or stalled
        return stalled


def test_work_without_steps_is_stillness_after_a_second_and_a_stall_later() -> None:
    engine = Engine(seen=Seen(7, 1))
    watcher = engine.watcher()
    watcher.look()
    assert engine.pass_time(watcher, 0.75) is None
    assert watcher.verdict.moving
    assert engine.pass_time(watcher, 0.25) is None
    assert not watcher.verdict.moving
    assert engine.pass_time(watcher, 8.75) is None
    stalled = engine.pass_time(watcher, 0.25)
    assert stalled is not None
    assert stalled.stillness.still_for_s == pytest.approx(10)


def test_a_step_that_ends_is_motion_again() -> None:
    engine = Engine(seen=Seen(7, 1))
    watcher = engine.watcher()
    engine.pass_time(watcher, 9)
    assert not watcher.verdict.moving
    engine.seen = Seen(8, 1)
    engine.pass_time(watcher, LOOK_S)
    assert watcher.verdict.moving
    assert engine.pass_time(watcher, 9) is None


def test_without_work_nothing_stands_still() -> None:
    engine = Engine()
    watcher = engine.watcher()
    assert engine.pass_time(watcher, 3600) is None
    assert watcher.verdict.moving


def test_the_limit_covers_two_of_the_longest_steps() -> None:
    engine = Engine(seen=Seen(0, 1))
    watcher = engine.watcher(longest_step_s=3)
    watcher.look()
    engine.pass_time(watcher, 5.75)
    assert watcher.verdict.moving
    engine.pass_time(watcher, 0.25)
    assert not watcher.verdict.moving


def test_clients_that_leave_and_come_again_do_not_hide_an_engine_that_stands_still() -> None:
    engine = Engine()
    watcher = engine.watcher()
    stalled = None
    for _ in range(12):
        engine.seen = Seen(0, 1)
        stalled = engine.pass_time(watcher, 2) or stalled
        engine.seen = Seen(0, 0)
        engine.pass_time(watcher, 5)
        assert watcher.verdict.moving
    assert stalled is not None


def test_a_pause_of_the_watcher_counts_as_one_look() -> None:
    engine = Engine(seen=Seen(0, 1))
    watcher = engine.watcher()
    watcher.look()
    engine.now_s += 3600
    assert watcher.look() is None
    assert watcher.verdict.still_for_s == LOOK_S


def test_time_without_a_processor_does_not_count() -> None:
    engine = Engine(seen=Seen(0, 1))
    watcher = engine.watcher()
    assert engine.pass_time(watcher, 300, waiting=1) is None
    assert watcher.verdict.moving


def test_an_engine_that_waits_a_part_of_the_time_is_found_later() -> None:
    engine = Engine(seen=Seen(0, 1))
    watcher = engine.watcher()
    assert engine.pass_time(watcher, 19, waiting=0.5) is None
    assert engine.pass_time(watcher, 3, waiting=0.5) is not None


def test_a_thread_that_has_waited_before_it_was_seen_has_not_waited_now() -> None:
    now_s = 0.0
    waited: Mapping[str, float] = {"main": 5.0}
    clock = OwnClock(lambda: waited, lambda: now_s)
    clock.since_last_look_s(exactly=True)
    waited = {"main": 5.0, "new": 80.0}
    now_s = LOOK_S
    assert clock.since_last_look_s(exactly=True) == LOOK_S


def test_the_part_that_stands_still_is_shown() -> None:
    now_s, seen = 0.0, {"engine": Seen(0, 0), "stub": Seen(0, 1)}
    parts = [
        Part(name=name, seen=lambda name=name: seen[name], limit_s=1, stall_s=10)  # type: ignore[misc]
        for name in seen
    ]
    watcher = Watcher(parts, OwnClock(now=lambda: now_s))
    for _ in range(8):
        watcher.look()
        now_s += LOOK_S
    assert (watcher.verdict.moving, watcher.verdict.part) == (False, "stub")
    seen["stub"] = Seen(1, 1)
    watcher.look()
    assert (watcher.verdict.moving, watcher.verdict.part) == (True, "engine")


@given(LOOKS)
def test_nothing_is_still_for_longer_than_the_time_since_its_last_step(
    looks: Sequence[tuple[Seen, float]],
) -> None:
    stillness, since_step_s, last = Stillness(), 0.0, Seen(0, 0)
    for now, counted_s in looks:
        since_step_s = 0.0 if now.steps != last.steps else since_step_s + counted_s
        stillness.look(now, counted_s)
        assert 0 <= stillness.still_for_s <= since_step_s + 1e-9
        last = now


@given(LOOKS)
def test_what_never_has_work_is_never_still(looks: Sequence[tuple[Seen, float]]) -> None:
    stillness = Stillness()
    for now, counted_s in looks:
        stillness.look(Seen(now.steps, 0), counted_s)
        assert stillness.still_for_s == 0


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=30))
def test_any_number_of_looks_count_as_no_more_than_their_number(gaps_s: list[float]) -> None:
    now_s = 0.0
    clock = OwnClock(now=lambda: now_s)
    counted_s = 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        counted_s += clock.since_last_look_s(exactly=False)
    assert counted_s <= len(gaps_s) * LOOK_S + 1e-9


def test_progress_is_seen_by_whoever_shares_it() -> None:
    own = Progress.create(beating_parts=2)
    engine = Progress.open(own.path)
    assert own.seen() == Seen(0, 0)
    engine.step_ended()
    engine.step_ended()
    engine.outstanding_are(3)
    assert own.seen() == Seen(2, 3)
    engine.beat(1)
    assert [own.beats(0), own.beats(1)] == [Seen(0, 0), Seen(1, 1)]
