# mypy: disable-error-code="import-untyped"
"""What Envoy's statistics say of requests, and how many there are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from control_plane.routing import Routing
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway, route
from support.waiting import eventually

pytestmark = pytest.mark.binaries

OPENAI, GRPC = "model-tiny-1-openai", "model-tiny-1-grpc"
SERIES_A_CLUSTER = 20
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


async def page(gateway: Gateway) -> list[tuple[str, dict[str, str], float]]:
    text = await gateway.admin("/stats/prometheus?usedonly")
    return [
        (name, dict(LABEL.findall(labels)), float(v)) for name, labels, v in SAMPLE.findall(text)
    ]


async def has(gateway: Gateway, metric: str, value: float, **labels: str) -> None:
    async def seen() -> bool:
        found = await page(gateway)
        return any(
            n == metric and labels.items() <= own.items() and v == value for n, own, v in found
        )

    await eventually(seen, f"{metric} of {labels} is {value}")


async def test_streams_and_keys_are_counted_for_each_model_over_both_protocols(
    gateway: Gateway, blue: FakeReplica, client: aiohttp.ClientSession
) -> None:
    routing = Routing(policy="affinity", session_header="x-session", bound_percent=150)
    await gateway.apply(
        route("tiny", routing=routing),
        model_tiny_1_openai=(blue.openai(),),
        model_tiny_1_grpc=(blue.grpc(),),
    )
    blue.release.set()
    url, stream = f"{gateway.url}/v1/completions", {"model": "tiny", "stream": True}
    for headers in ({"x-session": "a"}, {}, {}):
        async with client.post(url, json={**stream, "prompt": "hello"}, headers=headers) as answer:
            assert (await answer.read()).endswith(b"[DONE]\n\n")
    async with client.post(url, json={"model": "tiny", "user": "u"}) as answer:
        assert answer.status == 200
    async with client.post(url, json={"model": "nobody's", "stream": True}) as answer:
        assert answer.status == 404
    async with triton.InferenceServerClient(gateway.target) as stub:

        async def one() -> object:
            yield {"model_name": "tiny", "inputs": []}

        async for _ in stub.stream_infer(one()):
            pass

    for metric in ("first_token_ms", "stream_ms"):
        await has(gateway, f"envoy_slipway_{metric}_count", 3, cluster=OPENAI)
        await has(gateway, f"envoy_slipway_{metric}_count", 1, cluster=GRPC)
    for key, count in {"session": 1, "prefix": 2, "user": 1}.items():
        await has(gateway, "envoy_slipway_requests", count, cluster=OPENAI, key=key)
    names = {labels.get("cluster", "") for _, labels, _ in await page(gateway)}
    assert not any("nobody" in name for name in names)
    buckets = [
        own["le"] for n, own, _ in await page(gateway) if n.endswith("first_token_ms_bucket")
    ]
    assert "600000" in buckets


async def test_a_cluster_has_few_statistics(tmp_path: Path, blue: FakeReplica) -> None:
    async with gateway(tmp_path, change=as_it_is) as started:
        await started.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
        lines = (await started.admin("/stats")).splitlines()
    names = [line.partition(":")[0] for line in lines if line.startswith("cluster.model-")]

    counts = Counter(name.split(".")[1] for name in names)

    assert set(counts) == {OPENAI, GRPC}
    assert all(0 < count <= SERIES_A_CLUSTER for count in counts.values()), counts
    assert f"cluster.{OPENAI}.outlier_detection.ejections_active" in names


def as_it_is(_: object) -> None:
    """The bootstrap of production, unchanged."""
