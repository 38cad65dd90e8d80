"""The real engine stands still, is slow, and answers with its first token. One load serves all."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hang import HANG_S
from real_replica import real_replica
from replica_process import GRPC_PORT, OPENAI_PORT, ReplicaProcess, wait_until
from test_liveness import live, moves, stands_still, stopped
from test_real_model import engine_in_flight
from triton_stream import Answer, TritonStream, sampling

pytestmark = pytest.mark.real

MODEL_LEN = 2048
# The longest step by the plan of models/smollm2.yaml on two cores (tests/unit/plan/dev_plan.json),
# and the shortest stall that it allows, in whole seconds.
PLANNED = {"longest_step_s": 4.654, "stall_s": 10}


@pytest.fixture(scope="module")
def replica() -> Iterator[ReplicaProcess]:
    with real_replica(document=PLANNED) as loaded:
        yield loaded


def engine_core(replica: ReplicaProcess) -> int:
    return next(pid for name, pid in replica.parts().items() if "VLLM::EngineCore" in name)


def start_stream(replica: ReplicaProcess, **body: object) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(replica.address, OPENAI_PORT, timeout=HANG_S)
    whole = {"model": "smollm2", "prompt": "Once upon a time", "stream": True, **body}
    headers = {"content-type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(whole), headers)
    return connection


@contextmanager
def busy_cores(processes: int) -> Iterator[None]:
    """Other work for the processor, as hard as the engine's."""
    started = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_stopped_engine_core_is_seen_and_its_stream_completes(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(max_tokens=300, ignore_eos=True)
        stream.send(
            "Once",
            stream=True,
            sampling_parameters=parameters,
            return_num_output_tokens=True,
        )
        answer = Answer()
        stream.receive(answer)
        with stopped(engine_core(replica)):
            wait_until(lambda: stands_still(replica))
            _, verdict = live(replica)
            assert (verdict["part"], verdict["outstanding"]) == ("engine", 1)
        wait_until(lambda: moves(replica))
        while stream.receive(answer):
            pass
    assert sum(each["num_output_tokens"][0] for each in answer.responses) == 300


def test_no_byte_comes_before_the_first_token_and_who_leaves_frees_the_engine(
    replica: ReplicaProcess,
) -> None:
    with stopped(engine_core(replica)):
        connection = start_stream(replica, max_tokens=5)
        wait_until(lambda: live(replica)[1]["outstanding"] == 1)
        connection.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.sock.recv(1)
        connection.close()
        wait_until(lambda: live(replica)[1]["outstanding"] == 0)
    wait_until(lambda: engine_in_flight(replica) == 0)
    assert moves(replica)


def test_a_stream_that_is_refused_has_the_refusals_status(replica: ReplicaProcess) -> None:
    connection = start_stream(replica, prompt="word " * 3 * MODEL_LEN)
    response = connection.getresponse()
    assert response.status == 400
    assert "maximum context length is 2048 tokens" in json.load(response)["error"]["message"]
    connection.close()


def test_prompts_of_full_length_on_busy_cores_stand_never_still(replica: ReplicaProcess) -> None:
    """At the same time, with three other processes for each core. No cache has the prompts."""
    prompt_tokens, asked = MODEL_LEN - 8, 2
    with busy_cores(6):
        connections = [
            start_stream(replica, prompt=[1000 + number] * prompt_tokens, max_tokens=8)
            for number in range(asked)
        ]
        for connection in connections:
            response = connection.getresponse()
            assert response.status == 200
            assert response.read().endswith(b"data: [DONE]\n\n")
            connection.close()
    assert replica.process.poll() is None
    assert moves(replica)
