"""Triton's protocols, by the official gRPC client and by plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from engine_sim_process import SimProcess
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from hang import HANG_S
from pings import answered_pings
from simulator.text import answer
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]


@pytest.fixture
async def client(replica: SimProcess) -> AsyncIterator[Any]:
    async with triton.InferenceServerClient(replica.grpc) as client:
        yield client


def tensor(name: str, value: str | bool) -> Any:
    kind = "BOOL" if isinstance(value, bool) else "BYTES"
    result = triton.InferInput(name, [1], kind)
    result.set_data_from_numpy(
        np.array([value], dtype=bool if isinstance(value, bool) else np.object_)
    )
    return result


def request(
    prompt: str,
    *,
    model: str = "llama",
    request_id: str = "",
    sampling: dict[str, Any] | str | None = None,
    **flags: bool,
) -> dict[str, Any]:
    inputs = [tensor("text_input", prompt)]
    inputs += [tensor(name, value) for name, value in flags.items()]
    if sampling is not None:
        text = sampling if isinstance(sampling, str) else json.dumps(sampling)
        inputs.append(tensor("sampling_parameters", text))
    return {
        "model_name": model,
        "inputs": inputs,
        "request_id": request_id,
        "enable_empty_final_response": True,
    }


async def answers(client: Any, *requests: dict[str, Any]) -> list[tuple[Any, Any]]:
    """(result, error) pairs until each request has had its final response."""

    async def sent() -> AsyncIterator[dict[str, Any]]:
        for one in requests:
            yield one

    return [pair async for pair in client.stream_infer(sent(), stream_timeout=HANG_S)]


def text(results: list[Any]) -> str:
    return b"".join(result.as_numpy("text_output")[0] for result in results).decode()


def is_final(result: Any) -> bool:
    return bool(result.get_response().parameters["triton_final_response"].bool_param)


async def test_a_stream_has_every_token_and_one_final_response(client: Any) -> None:
    flags: dict[str, Any] = {
        f"return_{name}": True
        for name in ("finish_reason", "num_input_tokens", "num_output_tokens")
    }
    pairs = await answers(
        client, request("one two three", stream=True, sampling={"max_tokens": 30}, **flags)
    )
    assert [error for _, error in pairs if error] == []
    results = [result for result, _ in pairs]
    assert text(results) == answer("one two three").text(0, 30)
    assert [is_final(result) for result in results] == [False] * (len(results) - 1) + [True]
    assert sum(int(result.as_numpy("num_output_tokens")[0]) for result in results) == 30
    assert results[0].as_numpy("num_input_tokens").tolist() == [3]
    assert results[0].as_numpy("finish_reason")[0] == b"None"
    assert results[-1].as_numpy("finish_reason")[0] == b"length"


async def test_without_stream_there_is_one_response_that_starts_with_the_input(
    client: Any,
) -> None:
    ((result, error),) = await answers(client, request("France? "))
    assert error is None
    assert text([result]).startswith("France? simulated: ")
    assert is_final(result)
    assert result.as_numpy("finish_reason") is None
    ((result, _),) = await answers(client, request("France? ", exclude_input_in_output=True))
    assert text([result]).startswith("simulated: ")


async def test_requests_on_one_stream_are_answered_in_parallel(
    client: Any, replica: SimProcess
) -> None:
    requests = [
        request(
            f"p{n}", model="small", request_id=str(n), stream=True, sampling={"max_tokens": 400}
        )
        for n in range(8)
    ]
    replica.set_faults(hang=True)  # until all have come
    answered = asyncio.create_task(answers(client, *requests))
    await asyncio.to_thread(replica.wait_for_sample, replica.openai, "vllm:num_requests_waiting", 8)
    replica.clear_faults()
    results = [result for result, error in await answered if not error]
    owners = [result.get_response().id for result in results]
    first_last = owners.index("0") < owners.index("7") < len(owners) - owners[::-1].index("0")
    assert first_last, "the first request was finished before the last one started"
    for n in range(8):
        own = [result for result in results if result.get_response().id == str(n)]
        assert text(own) == answer(f"p{n}").text(0, 400)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request("x", model="other"), "unknown model: 'other'"),
        (request("x", sampling={"max_tokens": 0}), "max_tokens must be at least 1"),
        (request("x", sampling={"max_tokens": 9999}), "maximum context length is 4096"),
        (request("x", sampling={"max_tokens": float("inf")}), "max_tokens must be at least 1"),
        (request("x", sampling={"n": 200_000_000}), "n must be 1"),
        (request("x", sampling="[" * 100_000), "sampling_parameters is not JSON"),
        (request("x", sampling={"lora_name": "l"}), "LoRA l is not supported"),
        (request("x", stream=True, exclude_input_in_output=False), "When streaming"),
        (request("x", colour=True), "unexpected inference input 'colour'"),
    ],
)
async def test_errors_come_inside_the_stream_and_leave_it_open(
    client: Any, wrong: dict[str, Any], message: str
) -> None:
    pairs = await answers(client, wrong, request("fine"))
    errors = [str(error) for _, error in pairs if error]
    assert len(errors) == 1
    assert message in errors[0]
    assert sum(1 for result, error in pairs if not error) == 1


async def test_a_cancelled_stream_ends_its_sequence(client: Any, replica: SimProcess) -> None:
    replica.set_faults(hang=True)
    stream = client.stream_infer(_one(request("x", stream=True, sampling={"max_tokens": 4000})))
    reader = asyncio.ensure_future(anext(aiter(stream)))
    await asyncio.to_thread(replica.wait_for_sample, replica.openai, "vllm:num_requests_waiting", 1)
    cancelled = replica.samples(replica.metrics)["nv_inference_request_failure{CANCELED}"]
    stream.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await asyncio.to_thread(replica.wait_for_sample, replica.openai, "vllm:num_requests_waiting", 0)
    replica.clear_faults()
    now = replica.samples(replica.metrics)["nv_inference_request_failure{CANCELED}"]
    assert now == cancelled + 1


async def _one(value: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield value


async def test_unary_inference_is_refused_as_triton_refuses_it(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="decoupled transaction policy"):
        await client.infer("llama", [tensor("text_input", "x")])


async def test_metadata_and_config_name_the_tensors(client: Any) -> None:
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("llama")
    assert await client.is_model_ready("small")
    assert not await client.is_model_ready("other")
    metadata = await client.get_model_metadata("llama", as_json=True)
    assert {"text_input", "stream", "sampling_parameters"} <= {
        one["name"] for one in metadata["inputs"]
    }
    assert [one["name"] for one in metadata["outputs"]] == [
        *("text_output", "finish_reason", "num_input_tokens", "num_output_tokens")
    ]
    config = await client.get_model_config("llama", as_json=True)
    assert config["config"]["model_transaction_policy"]["decoupled"] is True


async def test_the_grpc_health_service_answers(replica: SimProcess) -> None:
    async with grpc.aio.insecure_channel(replica.grpc) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


def test_generate_and_generate_stream_answer_over_http(replica: SimProcess) -> None:
    url = replica.http + "/v2/models/small/"
    body = {"text_input": "hello", "parameters": {"max_tokens": 3}, "return_finish_reason": True}
    status, reply = replica.call(url + "generate", body)
    assert status == 200
    assert json.loads(reply) == {
        "model_name": "small",
        "model_version": "1",
        "text_output": "hello" + answer("hello").text(0, 3),
        "finish_reason": "length",
    }
    status, events = replica.call(url + "generate_stream", {**body, "stream": True})
    assert status == 200
    parts = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    assert "".join(part["text_output"] for part in parts) == answer("hello").text(0, 3)
    status, reply = replica.call(url + "generate", {**body, "stream": True})
    assert (status, "exactly 1 response" in reply) == (400, True)
    assert replica.call(replica.http + "/v2/models/other/generate", body)[0] == 404


def test_the_metrics_port_counts_successes(replica: SimProcess) -> None:
    before = replica.samples(replica.metrics)
    replica.call(replica.http + "/v2/models/llama/generate", {"text_input": "x"})
    after = replica.samples(replica.metrics)
    name = "nv_inference_request_success"
    assert after[name] == before[name] + 1
    assert after["nv_inference_pending_request_count"] == 0


async def test_a_quiet_connection_is_kept_however_often_envoy_pings_it(
    replica: SimProcess,
) -> None:
    host, _, port = replica.grpc.rpartition(":")
    assert await answered_pings(host, int(port), 20) == 20
