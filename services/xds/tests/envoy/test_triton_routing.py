# mypy: disable-error-code="import-untyped"
"""Triton's gRPC API through a real Envoy, with the unmodified tritonclient."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import tritonclient.grpc.aio as triton
from hang import HANG_S
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.binaries


@pytest.fixture
async def tiny(gateway: Gateway, blue: FakeReplica) -> FakeReplica:
    await gateway.apply(route("tiny", aliases=("small",)), model_tiny_1_grpc=(blue.grpc(),))
    return blue


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[Any]:
    async with triton.InferenceServerClient(gateway.target) as started:
        yield started


async def test_a_stream_goes_to_the_model_that_its_first_message_names(
    gateway: Gateway, client: Any, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(
        route("tiny"),
        route("big"),
        model_tiny_1_grpc=(blue.grpc(),),
        model_big_1_grpc=(green.grpc(),),
    )

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "big", "inputs": [], "request_id": "1"}

    answers = [answer async for answer in client.stream_infer(requests())]

    assert [error for _, error in answers] == [None]
    assert answers[0][0].get_response().model_version == "green"


async def test_a_stream_stays_open_for_many_requests(client: Any, tiny: FakeReplica) -> None:
    questions: asyncio.Queue[str | None] = asyncio.Queue()

    async def requests() -> AsyncIterator[dict[str, Any]]:
        while (name := await questions.get()) is not None:
            yield {"model_name": "tiny", "inputs": [], "request_id": name}

    answers = aiter(client.stream_infer(requests()))
    for number in range(20):
        await questions.put(str(number))
        result, error = await asyncio.wait_for(anext(answers), HANG_S)
        assert (error, result.get_response().id) == (None, str(number))
    assert tiny.in_flight == 1

    await questions.put(None)
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(answers), HANG_S)


async def test_unary_methods_are_routed_by_model_name(client: Any, tiny: FakeReplica) -> None:
    assert await client.is_model_ready("tiny")
    assert await client.is_model_ready("small")
    assert (await client.get_model_metadata("tiny")).platform == "blue"
    assert (await client.infer("tiny", inputs=[])).get_response().model_version == "blue"


async def test_an_unknown_model_is_not_found(client: Any, tiny: FakeReplica) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "huge", "inputs": []}

    with pytest.raises(InferenceServerException) as unary:
        await client.infer("huge", inputs=[])
    assert unary.value.status() == "StatusCode.NOT_FOUND"
    assert "served are: small, tiny" in unary.value.message()

    with pytest.raises(grpc.aio.AioRpcError) as stream:
        async for _ in client.stream_infer(requests()):
            pass
    assert stream.value.code() is grpc.StatusCode.NOT_FOUND


async def test_no_healthy_replica_is_unavailable(
    gateway: Gateway, client: Any, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_grpc=(blue.grpc(healthy=False),))

    with pytest.raises(InferenceServerException) as failure:
        await client.infer("tiny", inputs=[])

    assert failure.value.status() == "StatusCode.UNAVAILABLE"
    assert failure.value.message() == (
        "no healthy replica of this model is available, try again shortly"
    )


async def test_tritons_control_methods_are_not_reachable(client: Any, tiny: FakeReplica) -> None:
    for call in (
        client.get_model_repository_index(),
        client.load_model("tiny"),
        client.unload_model("tiny"),
        client.get_system_shared_memory_status(),
        client.get_trace_settings("tiny"),
        client.get_log_settings(),
    ):
        with pytest.raises(InferenceServerException) as failure:
            await call
        assert failure.value.status() == "StatusCode.UNIMPLEMENTED"
        assert "inference methods only" in failure.value.message()
