"""Start, drain and end of the process, and its memory."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from typing import Any

import psutil
import pytest
from engine_sim_process import SimProcess
from hang import HANG_S
from simulator.text import answer

LONG_S = 3600  # longer than any test
# An answer of 1,000 tokens takes minutes, until a test clears the fault.
SLOWED: dict[str, Any] = {"engine_args": {"faults": {"slow": 100}}}


def start_stream(replica: SimProcess, tokens: int, fault: str = "") -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(replica.address, 8000, timeout=HANG_S)
    body = {"prompt": "x", "max_tokens": tokens, "stream": True, "slipway_fault": fault}
    connection.request("POST", "/v1/completions", json.dumps(body))
    return connection


def text_of(events: bytes) -> str:
    lines = [line[6:] for line in events.decode().splitlines() if line.startswith("data: {")]
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines)


def test_it_takes_less_than_80_mb() -> None:
    with SimProcess() as replica:
        assert psutil.Process(replica.process.pid).memory_info().rss < 80e6


def test_while_it_loads_it_is_alive_and_not_ready() -> None:
    with SimProcess(wait_for="listeners", startup_s=LONG_S) as replica:
        assert replica.call(replica.openai + "/health")[0] == 503
        assert replica.call(replica.http + "/v2/health/live")[0] == 200
        assert replica.call(replica.http + "/v2/health/ready")[0] == 400
        status, text = replica.call(replica.openai + "/v1/completions", {"prompt": "x"})
        assert (status, "not ready" in text) == (503, True)


def test_it_is_ready_once_it_has_loaded() -> None:
    with SimProcess(wait_for="listeners", startup_s=0.8) as replica:
        replica.wait_for(replica.openai + "/health", 200)
        assert replica.call(replica.http + "/v2/health/ready")[0] == 200


@pytest.mark.parametrize("port", [8000, 8001])
def test_it_waits_for_a_port_that_something_else_listens_on(port: int) -> None:
    replica = SimProcess(wait_for="nothing")
    with socket.create_server((replica.address, port)) as holder, replica:
        replica.wait_for_log(f"waiting for ports [{port}]")
        holder.close()
        replica.wait_for(replica.openai + "/health", 200)


def test_it_waits_for_ports_that_another_one_still_drains_on() -> None:
    with SimProcess() as first, SimProcess(wait_for="nothing", address=first.address) as second:
        second.wait_for_log("waiting for ports")
        first.terminate()
        assert first.process.wait(HANG_S) == 0
        second.wait_for(second.openai + "/health", 200)


def test_sigterm_ends_one_that_waits_for_its_ports() -> None:
    with SimProcess() as first, SimProcess(wait_for="nothing", address=first.address) as second:
        second.wait_for_log("waiting for ports")
        second.terminate()
        assert second.process.wait(HANG_S) == 0


def test_sigterm_lets_streams_finish_and_answers_new_requests_meanwhile() -> None:
    with SimProcess(drain_timeout_s=LONG_S, **SLOWED) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        replica.terminate()
        replica.wait_for_log("draining 1 requests")
        body = {"prompt": "y", "max_tokens": 1}
        assert replica.call(replica.openai + "/v1/completions", body)[0] == 200
        assert replica.process.poll() is None
        replica.set_faults(slow=0)
        events = response.read()
        assert text_of(events) == answer("x").text(0, 1000)
        assert events.endswith(b"data: [DONE]\n\n")
        assert replica.process.wait(HANG_S) == 0
        assert "cut off" not in replica.log()


def test_without_requests_sigterm_waits_for_nothing() -> None:
    with SimProcess(drain_timeout_s=LONG_S) as replica:
        replica.terminate()
        assert replica.process.wait(HANG_S) == 0
        assert "draining 0 requests" in replica.log()
        assert "cut off" not in replica.log()


def test_a_drain_ends_at_its_time_limit() -> None:
    with SimProcess(drain_timeout_s=0.5) as replica:
        connection = start_stream(replica, 5, "hang=1")
        connection.getresponse()
        replica.terminate()
        assert replica.process.wait(HANG_S) == 0
        assert "1 requests cut off after 0.5 s" in replica.log()
        connection.close()


def test_a_second_sigterm_does_not_wait_for_the_drain() -> None:
    with SimProcess(drain_timeout_s=LONG_S) as replica:
        connection = start_stream(replica, 5, "hang=1")
        connection.getresponse()
        replica.terminate()
        replica.wait_for_log("draining 1 requests")
        replica.terminate()
        assert replica.process.wait(HANG_S) == -signal.SIGTERM
        connection.close()


def test_an_address_of_another_machine_ends_the_process_with_1() -> None:
    with SimProcess(wait_for="end", address="192.0.2.1") as replica:
        assert replica.process.returncode == 1
        assert "192.0.2.1:8000" in replica.log()
        assert "Traceback" not in replica.log()


def test_a_client_that_leaves_frees_the_engine() -> None:
    with SimProcess(**SLOWED) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        response.read(10)
        assert replica.samples(replica.openai)["vllm:num_requests_running"] == 1
        response.close()
        connection.close()
        replica.wait_for_sample(replica.openai, "vllm:num_requests_running", 0)
        assert replica.samples(replica.openai)["vllm:request_success_total{abort}"] == 1


_LEAVING_CLIENT = """
import asyncio, sys, numpy
import tritonclient.grpc.aio as triton

received = 0

async def request():
    prompt = triton.InferInput("text_input", [1], "BYTES")
    prompt.set_data_from_numpy(numpy.array(["x"], dtype=object))
    stream = triton.InferInput("stream", [1], "BOOL")
    stream.set_data_from_numpy(numpy.array([True]))
    parameters = {"max_tokens": 100000}
    yield {"model_name": "llama", "inputs": [prompt, stream], "parameters": parameters}

async def read(client):
    global received
    async for _ in client.stream_infer(request()):
        received += 1
        if received == 50:
            print("receiving", flush=True)

async def main():
    client = triton.InferenceServerClient(sys.argv[1])
    await asyncio.gather(*[read(client) for _ in range(24)])

asyncio.run(main())
"""


def test_a_grpc_client_that_is_killed_leaves_no_sequence_and_no_traceback() -> None:
    # A fifth of a token's time: there is always a message in flight, for minutes.
    memory: dict[str, Any] = {"max_model_len": 100_016, "kv_cache_bytes": 24 * 100_016 * 131_072}
    with SimProcess(engine_args={"time_scale": 0.2}, **memory) as replica:
        command = [sys.executable, "-c", _LEAVING_CLIENT, replica.grpc]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"receiving\n"
            replica.wait_for_sample(replica.openai, "vllm:num_requests_running", 24)
            client.kill()
        replica.wait_for_sample(replica.openai, "vllm:num_requests_running", 0)
        replica.wait_for_sample(replica.metrics, "nv_inference_request_failure{CANCELED}", 24)
        assert "Traceback" not in replica.log()


def test_a_fault_keeps_it_from_starting() -> None:
    with SimProcess(wait_for="end", engine_args={"faults": {"no_start": True}}) as replica:
        assert replica.process.returncode == 1
