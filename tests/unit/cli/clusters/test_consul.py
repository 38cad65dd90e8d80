"""Consul as commands ask it."""

from __future__ import annotations

import httpx
import pytest

from cli.clusters.consul import Consul
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve

MEMBERS = {"GET /v1/agent/members": (200, [{"Name": "worker-1", "Status": 4}])}


def test_an_agent_that_consul_has_forgotten_need_not_leave(serve: Serve) -> None:
    refused = {
        f"PUT /v1/agent/force-leave/worker-{k}?prune": (500, {"error": "No node found"})
        for k in (0, 1)
    }
    serve({**MEMBERS, **refused}, address=f"{NETWORK}.2", port=8500)
    with Consul(httpx.Client(base_url=f"http://{NETWORK}.2:8500")) as consul:
        consul.force_leave("worker-0")
        with pytest.raises(httpx.HTTPStatusError):
            consul.force_leave("worker-1")
