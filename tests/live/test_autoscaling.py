"""The Nomad Autoscaler raises a count because of the load that Envoy sees."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.live.environments import Platform
from tests.live.models import job_of_each_model, serving, wait_for_count
from tests.live.streaming import PROTOCOLS, Load
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.live

MODEL = "sim-b"
# Its target is 16 requests per replica (half of max_num_seqs). Slow streams: many in flight for
# little work.
STREAMS_PER_PROTOCOL = 16
SLOW = {"slipway_fault": "slow=10"}
LOOK_S = 0.25  # Envoy's statistics can only be polled


def test_load_raises_the_count_and_the_new_replica_takes_its_part(platform: Platform) -> None:
    job = job_of_each_model(platform)[MODEL]
    assert len(serving(platform, job)) == 1

    async def scale_out() -> Load:
        async with Load(
            platform.http,
            platform.grpc,
            [MODEL],
            streams_per_protocol=STREAMS_PER_PROTOCOL,
            parameters=SLOW,
        ) as load:
            await asyncio.to_thread(wait_for_count, platform, job, 2)
            await asyncio.to_thread(_wait_until_both_get_requests, platform, job)
        return load

    load = asyncio.run(scale_out())
    assert load.failures == []
    scale = platform.nomad(f"job/{job}/scale")["TaskGroups"]["replica"]
    assert "nomad_policy_id" in scale["Events"][0]["Meta"]  # so it was the autoscaler
    platform.slipway("preview", "--expect-no-changes")


def _wait_until_both_get_requests(platform: Platform, job: str) -> None:
    def both() -> bool:
        return sorted(map(len, _busy_replicas(platform, job).values())) == [2, 2]

    until(both, "a request of both protocols to both replicas", pause_s=LOOK_S)


def _busy_replicas(platform: Platform, job: str) -> dict[str, set[int]]:
    """By protocol: the ports of the replicas that Envoy has sent requests to."""
    url = f"{platform.edge(9901)}/clusters"
    answer = httpx.get(url, params={"format": "json"}, verify=platform.operator, timeout=HANG_S)
    clusters = answer.json()["cluster_statuses"]
    hosts = {cluster["name"]: cluster.get("host_statuses", []) for cluster in clusters}
    return {
        protocol: {
            host["address"]["socket_address"]["port_value"]
            for host in hosts[f"{job}-{protocol}"]
            for stat in host["stats"]
            if stat.get("name") == "rq_total" and int(stat.get("value", 0))
        }
        for protocol in PROTOCOLS
    }
