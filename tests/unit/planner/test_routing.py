"""How the gateway chooses the replica of a request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.serving.route import route_document
from slipway.config.errors import ConfigError
from slipway.planner.platform import draft_plan
from slipway.planner.routing import (
    GREATEST_BOUND_PERCENT,
    LEAST_BOUND_PERCENT,
    bound_percent,
)
from tests.unit.planner.fleets import engine, fleet, model_file


def routing(**section: Any) -> Any:
    """What the route's document says of a model with this section."""
    file = model_file(engine=engine("qwen3-30b-a3b"), parallel={"tensor": 2})
    if section:
        file["routing"] = section
    (model,) = draft_plan(fleet(file)).models
    return route_document(model, "model-chat-1")["routing"]


def test_by_default_a_prompts_beginning_chooses_the_replica_within_a_bound() -> None:
    planned = routing()
    assert (planned["policy"], planned["key"]) == ("affinity", "prefix")
    assert LEAST_BOUND_PERCENT <= planned["bound_percent"] <= GREATEST_BOUND_PERCENT


def test_what_the_model_file_says_reaches_the_gateway() -> None:
    section = {"key": "session", "session_header": "x-chat", "bound_percent": 130}
    assert routing(**section) == {"policy": "affinity", **section}


def test_least_request_has_no_key() -> None:
    assert routing(policy="least_request") == {"policy": "least_request"}


@pytest.mark.parametrize(
    ("mean", "percent"), [(1, 300), (4, 200), (16, 150), (64, 125), (100, 125), (1000, 125)]
)
def test_the_bound_is_at_least_two_standard_deviations_above_the_mean(
    mean: int, percent: int
) -> None:
    assert bound_percent(mean, batch=1) == percent


def test_a_replica_keeps_its_requests_until_half_a_batch_waits() -> None:
    assert bound_percent(16, batch=32) == 300
    assert bound_percent(16, batch=256) == GREATEST_BOUND_PERCENT


@given(st.integers(0, 10_000), st.integers(1, 1000))
def test_more_requests_never_have_a_wider_bound(mean: int, batch: int) -> None:
    assert bound_percent(mean + 1, batch) <= bound_percent(mean, batch)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"policy": "random"}, "routing.policy"),
        ({"key": "ip"}, "routing.key"),
        ({"bound_percent": 99}, "routing.bound_percent"),
        ({"bound_percent": 10_001}, "routing.bound_percent"),
        ({"session_header": "X-Session"}, "routing.session_header"),
        ({"session_header": ":authority"}, "routing.session_header"),
        ({"key": "session"}, "needs a session_header"),
        ({"policy": "least_request", "key": "user"}, "key has no effect with policy least_request"),
        ({"stall_s": "soon"}, "routing.stall_s"),
        ({"stall_s": 0}, "routing.stall_s"),
    ],
)
def test_a_value_that_could_not_reach_the_gateway_is_refused(
    section: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        routing(**section)
    assert said in str(refused.value)
