"""A second environment of the same checkout, beside the platform, which must not notice.

Before tests that scale a model: the autoscaler takes replicas back for a while after them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.live.environments import Platform
from tests.live.failures import Watched, settled
from tests.live.footprint import NOTHING, files_beside, footprint, shared_memory_of
from tests.live.streaming import Load
from tests.waiting import until
from toolchain.settings import default_cache

pytestmark = pytest.mark.live


def test_a_second_environment_comes_and_goes_and_the_first_does_not_notice(
    platform: Platform, second: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards nothing of the environment is left."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # whatever a command leaves there is its own
    mounts_before = footprint(second, {})["mounts"]
    files_before = files_beside(second)

    async def come_and_go() -> tuple[Load, dict[str, int]]:
        async with Load(platform.http, platform.grpc, ["sim-a"], streams_per_protocol=1) as load:
            report = await asyncio.to_thread(second.up)
            assert report["models"] == {"sim-a": {"ready": True}}
            assert report["gateway"]["http"] != platform.http
            shared = shared_memory_of(second)
            await asyncio.to_thread(second.down)
        return load, shared

    watched = Watched(platform.checkout, default_cache(), platform.name)
    before = asyncio.run(settled(watched))
    load, shared = asyncio.run(come_and_go())
    assert load.failures == []
    # Prometheus calls a target down that is late once.
    until(lambda: not list(watched.strength().lacks(before)), "the whole platform", pause_s=1)
    assert footprint(second, shared) == {**NOTHING, "mounts": mounts_before}
    assert files_beside(second) == files_before
    assert list(temporary.iterdir()) == []
