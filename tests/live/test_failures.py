"""kill -9 of one process after the other, under streaming load over both protocols.

A sample of `failures.PARTS`, one for each way of recovery; bench/failures.py kills them all, and
has the bars of their times.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.live.environments import Platform
from tests.live.failures import (
    PARTS,
    SIMULATED,
    Recovery,
    Watched,
    kill_and_watch,
    kill_supervisord,
)
from toolchain.settings import default_cache

pytestmark = pytest.mark.live

# The gateway itself: requests in flight fail, and so do new ones until it is back.
CUTS_STREAMS = {"Envoy", "Envoy's executor"}
# One stream over each protocol, if both were on the replica that dies.
CUTS_A_REPLICA = {"replica (simulated)", "its watcher", "its executor"}
SAMPLE = [
    "replica (simulated)",
    "its watcher",
    "its executor",
    "Envoy",
    "Envoy's executor",
    "Envoy's logmon",
    "xDS",
    "Nomad client, replicas' node",
    "Nomad server",
    "Consul client, gateway's node",
    "Consul server",
    # The part of the real replica whose death neither Triton nor Nomad would notice. It is the
    # only replica here: the other model's clients must not notice. bench/failures.py has two.
    "real replica: stub",
]


@pytest.fixture
def watched(platform: Platform) -> Watched:
    return Watched(platform.checkout, default_cache(), platform.name)


@pytest.mark.parametrize("name", SAMPLE)
async def test_the_platform_gets_over_the_death_of_one_process(watched: Watched, name: str) -> None:
    part = next(part for part in PARTS if part.name == name)
    part = dataclasses.replace(part, model=SIMULATED)
    recovery = await kill_and_watch(watched, part)
    assert recovery.full_strength_s is not None, recovery.missing
    assert recovery.first_answer_s is not None
    assert recovery.left_shared_memory == []
    _assert_failures_are_bounded(recovery)


def _assert_failures_are_bounded(recovery: Recovery) -> None:
    """A dead replica or gateway cuts what it was answering; nothing else may fail."""
    if recovery.part in CUTS_STREAMS:
        assert recovery.failed_later == []
    elif recovery.part in CUTS_A_REPLICA:
        assert len(recovery.failed) <= 2, recovery.failed
    else:
        assert recovery.failed == []


async def test_traffic_goes_on_without_supervisord_and_start_brings_it_back(
    platform: Platform, watched: Watched
) -> None:
    recovery = await kill_supervisord(platform, watched)
    assert recovery.failed == []
    assert recovery.full_strength_s is not None, recovery.missing
