"""Every panel of the dashboards has something to show on a running platform."""

from __future__ import annotations

import asyncio

import pytest

from components.dashboards.panels import PANELS, Panel
from tests.components.test_dashboards import as_sent
from tests.live.environments import Platform
from tests.live.metrics import wait_for
from tests.live.streaming import grpc_stream, openai_stream

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def asked(platform: Platform) -> Platform:
    """The platform after a request over each protocol: Envoy has no figures of what was never
    used."""

    async def ask() -> None:
        for stream, address in ((openai_stream, platform.http), (grpc_stream, platform.grpc)):
            assert (await stream(address, "sim-a", "hello", max_tokens=4)).error is None

    asyncio.run(ask())
    return platform


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_every_query_of_a_panel_has_a_series(asked: Platform, panel: Panel) -> None:
    """A rate has one after two scrapes."""
    for query in panel.queries:
        wait_for(asked, as_sent(query.expression))
