"""Every fault, as a client sees it."""

from __future__ import annotations

import http.client
import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from engine_sim_process import SimProcess
from hang import HANG_S
from simulator.text import answer
from test_triton_protocols import answers, request

COMPLETIONS = "/v1/completions"


@pytest.fixture(autouse=True)
def no_faults_left(replica: SimProcess) -> Iterator[None]:
    yield
    replica.clear_faults()


def complete(replica: SimProcess, fault: str | None = None, **body: Any) -> tuple[int, str]:
    headers = {"x-slipway-fault": fault} if fault else {}
    whole = {"model": "llama", "prompt": "x", **body}
    return replica.call(replica.openai + COMPLETIONS, whole, headers=headers)


def test_an_error_is_a_500_and_only_for_its_request(replica: SimProcess) -> None:
    status, text = complete(replica, "error")
    assert (status, json.loads(text)["error"]["type"]) == (500, "InternalServerError")
    assert complete(replica, slipway_fault="error")[0] == 500
    assert complete(replica)[0] == 200


def test_an_error_rate_fails_exactly_its_share(replica: SimProcess) -> None:
    replica.set_faults(error=0.25)
    statuses = [complete(replica)[0] for _ in range(12)]
    assert statuses.count(500) == 3


def test_a_stream_that_dies_ends_without_done(replica: SimProcess) -> None:
    connection = http.client.HTTPConnection(replica.address, 8000, timeout=HANG_S)
    body = json.dumps({"prompt": "x", "max_tokens": 50, "stream": True})
    connection.request("POST", COMPLETIONS, body, {"x-slipway-fault": "die=5"})
    with pytest.raises(http.client.IncompleteRead) as caught:
        connection.getresponse().read()
    assert b"w4 " in caught.value.partial
    assert b"w5 " not in caught.value.partial
    assert b"[DONE]" not in caught.value.partial
    connection.close()


async def test_a_grpc_stream_that_dies_is_unavailable(replica: SimProcess) -> None:
    async with triton.InferenceServerClient(replica.grpc) as client:
        sampling = {"max_tokens": 9, "slipway_fault": "die=3"}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(client, request("x", stream=True, sampling=sampling))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        ((_, error),) = await answers(client, request("x", sampling={"slipway_fault": "error"}))
        assert "injected fault" in str(error)


def test_a_hanging_request_hangs_and_others_go_on(replica: SimProcess) -> None:
    connection = http.client.HTTPConnection(replica.address, 8000, timeout=HANG_S)
    body = json.dumps({"prompt": "x", "max_tokens": 50, "stream": True})
    connection.request("POST", COMPLETIONS, body, {"x-slipway-fault": "hang=2"})
    received = b""
    while answer("x").text(1, 2).encode() not in received:
        received += connection.sock.recv(4096)
    assert complete(replica)[0] == 200
    replica.wait_for_sample(replica.openai, "vllm:num_requests_running", 0)  # all 50 are made
    connection.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        received += connection.sock.recv(4096)
    assert answer("x").text(2, 3).encode() not in received
    connection.close()


def test_full_memory_lets_requests_wait_until_it_is_free(replica: SimProcess) -> None:
    replica.set_faults(kv_full=True)
    connection = http.client.HTTPConnection(replica.address, 8000, timeout=HANG_S)
    connection.request("POST", COMPLETIONS, json.dumps({"prompt": "x"}))
    replica.wait_for_sample(replica.openai, "vllm:num_requests_waiting", 1)
    samples = replica.samples(replica.openai)
    assert samples["vllm:kv_cache_usage_perc"] == 1
    assert samples["vllm:num_requests_running"] == 0
    replica.clear_faults()
    assert connection.getresponse().status == 200
    assert replica.samples(replica.openai)["vllm:kv_cache_usage_perc"] == 0
    connection.close()


def test_not_ready_shows_on_every_health_check_and_requests_go_on(replica: SimProcess) -> None:
    checks = [
        (replica.openai + "/health", 503),
        (replica.http + "/v2/health/ready", 400),
        (replica.http + "/v2/models/llama/ready", 400),
    ]
    assert [replica.call(url)[0] for url, _ in checks] == [200] * 3
    replica.set_faults(not_ready=True)
    assert [replica.call(url)[0] for url, _ in checks] == [status for _, status in checks]
    assert replica.call(replica.http + "/v2/health/live")[0] == 200
    assert complete(replica)[0] == 200


def test_a_wrong_fault_is_refused_and_changes_nothing(replica: SimProcess) -> None:
    url = replica.openai + "/sim/faults"
    before = replica.call(url)
    status, text = replica.call(url, {"explode": True}, method="PUT")
    assert (status, "unknown fault 'explode'" in text) == (400, True)
    assert replica.call(url) == before
    assert complete(replica, "slow")[0] == 400


def test_a_whole_answer_that_dies_is_no_answer(replica: SimProcess) -> None:
    with pytest.raises((http.client.RemoteDisconnected, urllib.error.URLError)):
        complete(replica, "die=1")
