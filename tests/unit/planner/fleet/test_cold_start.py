from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.load import Lengths, Load, Ramp
from slipway.plan.figures import Figure
from slipway.planner.fleet.cold_start import cliff, cold_start
from slipway.planner.fleet.replicas import replicas_needed, safe_utilization
from slipway.planner.supply.supplies import plan_hosts
from slipway.planner.supply.supply import Supply
from tests.unit.planner.fleets import H100, fleet


def _supply(**changes: object) -> Supply:
    return plan_hosts(fleet(pools={"h100": H100 | changes})).supplies["h100"]


def _load(rate: float, to: float, seconds: float) -> Load:
    same = Lengths(p50=100, p95=100)
    return Load(
        requests_per_s=rate,
        input_tokens=same,
        output_tokens=same,
        ramp=Ramp(to_requests_per_s=to, seconds=seconds),
        source="a test",
    )


def _cliff_s(load: Load, *, capacity: float, slack_s: float, detection_s: float = 0.0) -> float:
    found = cliff(
        load, capacity=capacity, slack_s=slack_s, detection_s=detection_s, source="a test"
    )
    assert found is not None
    return found.value


def test_a_start_on_a_running_node_is_the_measured_one() -> None:
    """Qwen3-32B in bfloat16 on one H100: 278 s (image, imports, load, compile)."""
    start = cold_start(_supply(nodes={"min": 2, "max": 2}), weight_bytes=65_500_000_000)
    assert start.total_s.value == pytest.approx(1.8 + 73 + 130 + 73)
    assert list(start.parts) == ["image", "load", "imports", "compile"]


def test_a_pool_that_grows_waits_for_a_node_its_image_and_its_weights_too() -> None:
    start = cold_start(_supply(), weight_bytes=65_500_000_000)
    assert list(start.parts)[:3] == ["node", "image", "weights"]
    # 65.5 GB over half of 100 Gbit/s: the fabric of 3,200 Gbit/s is for other things
    assert start.parts["weights"].value == pytest.approx(65.5 / 6.25)
    assert "50% of 100 Gbit/s: " in start.parts["weights"].source
    assert "assumed" in start.parts["node"].source


def test_weights_are_downloaded_at_the_rate_that_lasts_and_at_best_at_that_of_a_burst() -> None:
    """A g6.xlarge carries 2.5 Gbit/s, and "up to" 10."""
    weights = cold_start(_supply(instance="g6.xlarge"), weight_bytes=16_000_000_000).parts[
        "weights"
    ]
    assert weights.value == pytest.approx(16 / (0.5 * 2.5 / 8))
    assert weights.low == pytest.approx(16 / (0.9 * 10 / 8))
    assert weights.high == pytest.approx(16 / (0.25 * 2.5 / 8))
    assert "2.5 Gbit/s sustained (up to 10 in bursts)" in weights.source


def test_the_cliff_by_hand() -> None:
    """From 10 to 20 requests/s in 100 s (0.1/s²), capacity 15: full after 50 s; 15 x 2 s = 30
    requests may queue, after sqrt(2 x 30 / 0.1) = 24.5 s more."""
    load = _load(10, 20, 100)
    assert _cliff_s(load, capacity=15, slack_s=2) == pytest.approx(50 + 600**0.5)
    assert _cliff_s(load, capacity=15, slack_s=2, detection_s=10) == pytest.approx(40 + 600**0.5)


def test_after_the_ramp_the_queue_grows_in_proportion() -> None:
    """As above with 15 s of slack: 225 may queue; 125 do at the end, then 5 more a second."""
    assert _cliff_s(_load(10, 20, 100), capacity=15, slack_s=15) == pytest.approx(100 + 100 / 5)


def test_a_load_beyond_the_capacity_queues_from_the_beginning() -> None:
    """10 requests/s on 8: 2 x t + 0.05 t² = 8 x 3."""
    expected = (-2 + (4 + 4 * 0.05 * 24) ** 0.5) / 0.1
    assert _cliff_s(_load(10, 20, 100), capacity=8, slack_s=3) == pytest.approx(expected)


def test_without_a_ramp_or_below_the_capacity_there_is_no_cliff() -> None:
    calm = cliff(_load(1, 5, 60), capacity=5, slack_s=1, detection_s=0, source="")
    assert calm is None


@given(
    capacity=st.floats(1, 18),
    slack=st.floats(0, 30),
    more=st.floats(0, 30),
    steeper=st.floats(1, 5),
)
def test_more_slack_never_shortens_the_cliff_and_a_steeper_ramp_never_lengthens_it(
    capacity: float, slack: float, more: float, steeper: float
) -> None:
    base = _cliff_s(_load(10, 20, 300), capacity=capacity, slack_s=slack)
    assert _cliff_s(_load(10, 20, 300), capacity=capacity, slack_s=slack + more) >= base - 1e-6
    steep = _cliff_s(_load(10, 20, 300 / steeper), capacity=capacity, slack_s=slack)
    assert steep <= base + 1e-6


@pytest.mark.parametrize(("startup_s", "share"), [(0, 0.83), (45, 0.83), (300, 0.69), (900, 0.69)])
def test_the_safe_utilization_is_that_of_the_two_known_points(
    startup_s: float, share: float
) -> None:
    assert safe_utilization(startup_s) == pytest.approx(share)


@given(rate=st.floats(0.01, 1000), capacity=st.floats(0.1, 100), startup=st.floats(0, 1000))
def test_the_replicas_carry_the_load_with_headroom_and_one_fewer_would_not(
    rate: float, capacity: float, startup: float
) -> None:
    figure = Figure(value=capacity, unit="requests/s", basis="estimate", source="a test")
    needed = replicas_needed(rate, figure, startup_s=startup).value
    safe = capacity * safe_utilization(startup)
    assert needed * safe >= rate * (1 - 1e-6)
    assert needed == 1 or (needed - 1) * safe < rate * (1 + 1e-6)


def test_the_bars_of_a_replicas_throughput_are_those_of_their_number() -> None:
    figure = Figure(value=2, unit="requests/s", basis="estimate", source="a test", low=1, high=4)
    needed = replicas_needed(8, figure, startup_s=0)
    assert (needed.low, needed.value, needed.high) == (3, 5, 10)
