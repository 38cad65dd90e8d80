"""The Nomad Autoscaler keeps its count while it cannot see the load."""

from __future__ import annotations

import asyncio

import pytest

from tests.live.blindness import (
    counts_over,
    envoy_not_scraped,
    prometheus_stopped,
    wait_until_blind,
    wait_until_seeing,
)
from tests.live.environments import Platform
from tests.live.fixtures import LEAST, MOST, SCALED_MODEL, STREAMS_PER_PROTOCOL
from tests.live.models import job_of_each_model, wait_for_count
from tests.live.streaming import Load

pytestmark = [pytest.mark.live, pytest.mark.beside]

STOPPED_S = 20  # ten evaluations
# Longer than the query's window of 60 s, after which the load before has left it.
BLIND_S = 80


def test_a_count_is_kept_while_prometheus_or_envoys_statistics_do_not_answer(
    scaled: Platform,
) -> None:
    job = job_of_each_model(scaled)[SCALED_MODEL]

    async def scale_out() -> None:
        async with Load(
            scaled.http, scaled.grpc, [SCALED_MODEL], streams_per_protocol=STREAMS_PER_PROTOCOL
        ):
            await asyncio.to_thread(wait_for_count, scaled, job, MOST)

    asyncio.run(scale_out())
    # The load has ended, which the autoscaler cannot know.
    with prometheus_stopped(scaled):
        assert "Prometheus does not answer" in wait_until_blind(scaled)
        assert counts_over(scaled, job, STOPPED_S) == {MOST}
    with envoy_not_scraped(scaled):
        assert "Envoy's statistics" in wait_until_blind(scaled)
        assert counts_over(scaled, job, BLIND_S) == {MOST}
    wait_until_seeing(scaled)
    wait_for_count(scaled, job, LEAST)  # it goes on by itself
