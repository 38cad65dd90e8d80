# mypy: disable-error-code="import-untyped"
"""Between the death of a replica and the news of it, Envoy still knows its address."""

from __future__ import annotations

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from control_plane.routing import Endpoint
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.waiting import ADDRESS, eventually, free_port

pytestmark = pytest.mark.binaries

REQUESTS = 300
STREAMS = 3


def dead() -> Endpoint:
    """Connections to it are refused."""
    return Endpoint(ADDRESS, free_port(), healthy=True)


async def test_a_request_refused_by_dead_replicas_is_answered_by_the_busy_living_one(
    gateway: Gateway, blue: FakeReplica, client: aiohttp.ClientSession
) -> None:
    """The dead have the fewest requests, which is what the load balancer looks for. Two of them:
    one would soon be ejected, both never are."""
    first, second = dead(), dead()
    await gateway.apply(
        route("tiny"),
        model_tiny_1_openai=(first, second, blue.openai()),
        model_tiny_1_grpc=(first, second, blue.grpc()),
    )
    url = f"{gateway.url}/v1/completions"
    streams = [
        await client.post(url, json={"model": "tiny", "stream": True}) for _ in range(STREAMS)
    ]
    await eventually(lambda: blue.in_flight == STREAMS, "the living replica is busy")

    statuses = []
    for _ in range(REQUESTS):
        async with client.post(url, json={"model": "tiny"}) as response:
            statuses.append(response.status)
    async with triton.InferenceServerClient(gateway.target) as stub:
        answers = [await stub.infer("tiny", []) for _ in range(REQUESTS)]

    assert statuses == [200] * REQUESTS
    assert {answer.get_response().model_version for answer in answers} == {"blue"}
    blue.release.set()
    for stream in streams:
        assert (await stream.read()).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(("living", "ejected"), [(0, 0), (1, 1), (2, 1)])
async def test_a_dead_replica_is_ejected_unless_it_is_the_only_one(
    gateway: Gateway,
    blue: FakeReplica,
    green: FakeReplica,
    client: aiohttp.ClientSession,
    living: int,
    ejected: int,
) -> None:
    replicas = (dead(), blue.openai(), green.openai())[: 1 + living]
    await gateway.apply(route("tiny"), model_tiny_1_openai=replicas)

    for _ in range(50):  # enough for three refusals in a row, the number that ejects
        async with client.post(f"{gateway.url}/v1/completions", json={"model": "tiny"}) as response:
            assert response.status == (200 if living else 503)

    name = "cluster.model-tiny-1-openai.outlier_detection.ejections_active"

    async def known() -> bool:
        return await gateway.stat(name) == ejected

    await eventually(known, f"{ejected} are ejected")
