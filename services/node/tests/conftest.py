"""Makes the programs and their test support importable, as they are on a host: side by side."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from cluster import Cluster, running_cluster  # noqa: E402  (importable from here on)
from program.http_json import Api  # noqa: E402
from program.waiting import wait_until  # noqa: E402


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only sleeping moves."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)


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
    wait_until("an empty node", lambda: _running(api) or None, 60)


def _running(nomad: Api) -> str:
    return ", ".join(
        each["Name"] for each in nomad.get("/v1/allocations") if each["ClientStatus"] == "running"
    )


@pytest.fixture
def consul(cluster: Cluster) -> Api:
    return cluster.consul(cluster.management["consul"])
