"""A cluster for the tests of a module, without jobs before and after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import Cluster, running_cluster
from hangs import HANG_S
from program.http_json import Api
from program.waiting import wait_until


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of the module's own, on its NETWORK: modules run side by side."""
    with running_cluster(request.module.NETWORK) as cluster:
        yield cluster


@pytest.fixture
def nomad(cluster: Cluster) -> Iterator[Api]:
    """Nomad without jobs, before and after."""
    api = cluster.nomad(cluster.management["nomad"])
    yield api
    for job in api.get("/v1/jobs"):
        api.delete(f"/v1/job/{job['ID']}?purge=true&no_shutdown_delay=true")
    wait_until("an empty node", lambda: _running(api) or None, HANG_S)


def _running(nomad: Api) -> str:
    return ", ".join(
        each["Name"] for each in nomad.get("/v1/allocations") if each["ClientStatus"] == "running"
    )


@pytest.fixture
def consul(cluster: Cluster) -> Api:
    return cluster.consul(cluster.management["consul"])
