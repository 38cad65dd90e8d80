from __future__ import annotations

from cli.live.clock import clock


def test_a_clock_reads_minutes_and_seconds() -> None:
    assert [clock(0.4), clock(67), clock(3605)] == ["  0:00", "  1:07", " 60:05"]
