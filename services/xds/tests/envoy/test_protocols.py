# mypy: disable-error-code="import-untyped"
"""Models that speak one of the two protocols, through a real Envoy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc
import pytest
import tritonclient.grpc.aio as triton
from hang import HANG_S
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.binaries


async def post(
    client: aiohttp.ClientSession, gateway: Gateway, model: str, **more: Any
) -> tuple[int, dict[str, Any]]:
    body = {"model": model, **more}
    async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()


async def infer(gateway: Gateway, model: str) -> str:
    """The marker of the replica that answered."""
    async with triton.InferenceServerClient(gateway.target) as client:
        answer = await client.infer(model, inputs=[])
        return str(answer.get_response().model_version)


async def _stream(gateway: Gateway, model: str) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": model, "inputs": [], "request_id": "1"}

    async with triton.InferenceServerClient(gateway.target) as client:
        async for _ in client.stream_infer(requests()):
            pass


@pytest.fixture
async def one_of_each(gateway: Gateway, blue: FakeReplica, green: FakeReplica) -> None:
    """`web` (alias `page`) speaks HTTP at blue, `tensor` (alias `array`) speaks gRPC at green."""
    await gateway.apply(
        route("web", aliases=("page",), protocols=("http",)),
        route("tensor", aliases=("array",), protocols=("grpc",)),
        model_web_1_openai=(blue.openai(),),
        model_tensor_1_grpc=(green.grpc(),),
    )


@pytest.mark.usefixtures("one_of_each")
async def test_each_model_answers_over_the_protocol_that_it_speaks(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    assert await post(client, gateway, "web") == (200, {"marker": "blue", "model": "web"})
    assert await infer(gateway, "tensor") == "green"


@pytest.mark.usefixtures("one_of_each")
async def test_envoy_has_no_cluster_and_no_route_of_the_other_protocol(gateway: Gateway) -> None:
    clusters = await gateway.admin("/clusters")
    configuration = await gateway.admin("/config_dump?include_eds")

    for absent in ("model-web-1-grpc", "model-tensor-1-openai"):
        assert absent not in clusters + configuration
    for present in ("model-web-1-openai", "model-tensor-1-grpc"):
        assert present in clusters
        assert present in configuration


@pytest.mark.usefixtures("one_of_each")
async def test_http_to_a_grpc_model_is_404_in_openais_form_and_says_why(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    for name in ("tensor", "array"):
        message = f"the model '{name}' is served over Triton's gRPC API only, not over the OpenAI"
        expected = {
            "error": {
                "message": f"{message} API",
                "type": "invalid_request_error",
                "param": "model",
                "code": "protocol_not_served",
            }
        }
        for stream in (False, True):
            assert await post(client, gateway, name, stream=stream) == (404, expected)
        async with client.get(f"{gateway.url}/v1/models/{name}") as response:
            assert (response.status, await response.json()) == (404, expected)


@pytest.mark.usefixtures("one_of_each")
async def test_grpc_to_an_http_model_is_unimplemented_and_says_why(gateway: Gateway) -> None:
    for name in ("web", "page"):
        message = f"the model '{name}' is served over the OpenAI API only, not over Triton's gRPC"
        told = f"{message} API"
        with pytest.raises(InferenceServerException) as unary:
            await infer(gateway, name)
        assert (unary.value.status(), unary.value.message()) == ("StatusCode.UNIMPLEMENTED", told)
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            await _stream(gateway, name)
        assert (stream.value.code(), stream.value.details()) == (
            grpc.StatusCode.UNIMPLEMENTED,
            told,
        )


@pytest.mark.usefixtures("one_of_each")
async def test_each_protocol_lists_only_the_models_that_speak_it(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{gateway.url}/v1/models") as response:
        listed = [entry["id"] for entry in (await response.json())["data"]]
    _, unknown = await post(client, gateway, "none")
    with pytest.raises(InferenceServerException) as unary:
        await infer(gateway, "none")

    assert listed == ["page", "web"]
    assert unknown["error"]["message"].endswith("served are: page, web")
    assert unary.value.message().endswith("served are: array, tensor")


async def test_a_protocol_that_a_model_gives_up_leaves_envoy_and_streams_end_well(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    endpoints = {"model_tiny_1_openai": (blue.openai(),), "model_tiny_1_grpc": (blue.grpc(),)}
    await gateway.apply(route("tiny"), **endpoints)
    url = f"{gateway.url}/v1/completions"
    stream = await client.post(url, json={"model": "tiny", "stream": True})
    assert await stream.content.readuntil(b"\n\n") == b"data: blue\n\n"

    await gateway.apply(route("tiny", protocols=("grpc",)), **endpoints)

    assert (await post(client, gateway, "tiny"))[0] == 404
    assert await infer(gateway, "tiny") == "blue"
    blue.release.set()
    assert await asyncio.wait_for(stream.read(), HANG_S) == b"data: [DONE]\n\n"
