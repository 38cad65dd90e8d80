"""Envoy and its control plane, started while Consul is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_plane.last_known import read
from support.consul import consul
from support.fake_replica import FakeReplica
from support.platform import ROUTE, Platform, started
from support.waiting import eventually

pytestmark = pytest.mark.binaries


async def test_both_started_without_consul_serve_what_they_knew(
    tmp_path: Path, blue: FakeReplica
) -> None:
    """Also when Consul returns without its state."""
    kept = tmp_path / "view.json"
    async with consul(tmp_path) as agent, started(tmp_path, agent, last_known=kept) as platform:
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")
        await eventually(lambda: has_an_endpoint(kept), "its endpoints are kept")

    async with started(tmp_path, agent, last_known=kept) as platform:
        await eventually(platform.ready, "the model is ready")
        assert await platform.complete() == (200, {"marker": "blue", "model": "tiny"})
        assert (await platform.status())["consul"]["stale_s"] > 0

        port = int(agent.url.rpartition(":")[2])
        async with consul(tmp_path, http_port=port):
            await eventually(lambda: reached(platform), "Consul answers")
            assert await platform.complete() == (200, {"marker": "blue", "model": "tiny"})


def has_an_endpoint(kept: Path) -> bool:
    view = read(kept) if kept.exists() else None
    return view is not None and any(view.table.endpoints.values())


async def reached(platform: Platform) -> bool:
    return bool((await platform.status())["consul"]["stale_s"] == 0)
