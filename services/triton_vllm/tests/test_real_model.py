"""Answers, numbers and memory of the real model. One load serves all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from agent_models import APIS, SETTINGS, Verdict, model_of
from api_answers import check_right_requests, check_wrong_requests
from hang import HANG_S
from pydantic_ai import Agent, NativeOutput
from real_replica import real_replica
from replica_process import (
    ALIAS,
    GRPC_PORT,
    OPENAI_PORT,
    REPLICA_HANG_S,
    ReplicaProcess,
    shared_memory_names,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling

pytestmark = pytest.mark.real

QUESTION = "What is the capital of France?"
PROMPT = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
COUNTED = {"return_num_output_tokens": True}


@pytest.fixture(scope="module")
def replica() -> Iterator[ReplicaProcess]:
    with real_replica() as loaded:
        print(*loaded.events(), sep="\n")
        yield loaded


def openai(replica: ReplicaProcess, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = f"http://{replica.address}:{OPENAI_PORT}{path}"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        content: dict[str, Any] = json.load(reply)
        return content


def tokens_of(answer: Answer) -> int:
    """Of a stream that is COUNTED. On a busy machine, vLLM sends several tokens in one response."""
    return sum(response["num_output_tokens"][0] for response in answer.responses)


def engine_in_flight(replica: ReplicaProcess) -> int:
    url = f"http://{replica.address}:{OPENAI_PORT}/metrics"
    with urllib.request.urlopen(url, timeout=HANG_S) as page:
        values = re.findall(
            r"^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$", page.read().decode(), re.M
        )
    assert len(values) == 2
    return round(sum(map(float, values)))


def test_the_openai_api_knows_the_capital(replica: ReplicaProcess) -> None:
    body = {"model": ALIAS, "messages": [{"role": "user", "content": QUESTION}]}
    answer = openai(replica, "/v1/chat/completions", {**body, "temperature": 0, "max_tokens": 20})
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."


def test_grpc_streams_the_same_answer(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(temperature=0, max_tokens=20)
        answer = stream.ask(PROMPT, stream=True, sampling_parameters=parameters, **COUNTED)
    assert answer.error is None
    assert answer.text == "The capital of France is Paris."
    assert tokens_of(answer) > 5
    assert len(answer.responses) > 1
    print(f"first token after {answer.seconds[0]:.3f} s")


def test_the_openai_api_renders_the_chat_template(replica: ReplicaProcess) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    tokens = openai(replica, "/tokenize", {"model": "smollm2", "messages": messages})["tokens"]
    prompt = openai(replica, "/detokenize", {"model": "smollm2", "tokens": tokens})["prompt"]
    assert prompt.startswith("<|im_start|>system\n")
    assert prompt.endswith(PROMPT)
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(temperature=0, max_tokens=20)
        answer = stream.ask(
            prompt, stream=True, sampling_parameters=parameters, return_num_input_tokens=True
        )
    assert answer.text == "The capital of France is Paris."
    assert answer.responses[0]["num_input_tokens"] == [len(tokens)]


def test_every_output_tensor_holds_what_the_engine_counted(replica: ReplicaProcess) -> None:
    names = ("finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens")
    wanted: dict[str, Any] = {f"return_{name}": True for name in (*names, "num_output_tokens")}
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


def test_both_protocols_refuse_the_same_number_of_choices(replica: ReplicaProcess) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        openai(replica, "/v1/completions", {"model": "smollm2", "prompt": "1", "n": 129})
    assert refusal.value.code == 400
    assert b"n must be at most 128" in refusal.value.read()


def test_the_sdks_types_read_all_that_the_three_apis_answer(replica: ReplicaProcess) -> None:
    url = f"http://{replica.address}:{OPENAI_PORT}"
    print(asyncio.run(check_right_requests(url, ALIAS)), "requests are answered")


def test_wrong_requests_get_the_statuses_and_errors_of_their_apis(replica: ReplicaProcess) -> None:
    url = f"http://{replica.address}:{OPENAI_PORT}"
    print(asyncio.run(check_wrong_requests(url, ALIAS)), "requests are refused")


def test_an_agent_framework_has_text_and_objects_of_the_model(replica: ReplicaProcess) -> None:
    url = f"http://{replica.address}:{OPENAI_PORT}"

    async def answers() -> None:
        for api in APIS:
            model = model_of(api, url, ALIAS)
            text = await Agent(model, model_settings={**SETTINGS, "temperature": 0}).run(QUESTION)
            assert "Paris" in text.output
            if api != "messages":  # the framework knows which of Anthropic's own models can
                judge = Agent(model, output_type=NativeOutput(Verdict), model_settings=SETTINGS)
                assert isinstance((await judge.run("Judge it.")).output, Verdict)

    asyncio.run(answers())


def test_a_cancelled_stream_leaves_the_engine_idle(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(max_tokens=1500, ignore_eos=True)
        stream.send("Once upon a time", stream=True, sampling_parameters=parameters)
        stream.receive(Answer())
        wait_until(lambda: engine_in_flight(replica) == 1)
        cancelled_at = time.monotonic()
        stream.client.stop_stream(cancel_requests=True)
        wait_until(lambda: engine_in_flight(replica) == 0)
        print(f"engine idle {time.monotonic() - cancelled_at:.2f} s after the cancellation")


def test_the_speed_and_the_memory_of_a_replica(replica: ReplicaProcess) -> None:
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        parameters = sampling(temperature=0, max_tokens=100, ignore_eos=True)
        answer = stream.ask(
            "Tell me a story.", stream=True, sampling_parameters=parameters, **COUNTED
        )
    rate = (len(answer.seconds) - 1) / (answer.seconds[-1] - answer.seconds[0])
    print(f"first token {answer.seconds[0]:.3f} s, {rate:.1f} tokens/s, load {os.getloadavg()[0]}")
    total = 0
    for pid in (replica.process.pid, *replica.marked()):
        process = psutil.Process(pid)
        pss = process.memory_full_info().pss
        total += pss
        print(f"{pss / 2**20:8.0f} MiB PSS  {' '.join(process.cmdline())[:70]}")
    print(f"{total / 2**20:8.0f} MiB PSS in all")
    assert tokens_of(answer) == 100
    assert total < 6 * 2**30


def test_the_engine_carries_the_marker_although_it_renames_itself(
    replica: ReplicaProcess,
) -> None:
    assert "VLLM::EngineCore" in " ".join(replica.parts())


def test_sigterm_lets_both_protocols_finish_their_streams(replica: ReplicaProcess) -> None:
    """The last test of this file: it ends the replica."""
    made = replica.shared_memory()
    body = {"model": ALIAS, "prompt": "Once", "max_tokens": 60, "stream": True}
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
        stream.send("Once", stream=True, sampling_parameters=parameters, **COUNTED)
        answer = Answer()
        stream.receive(answer)
        events.readline()
        replica.process.terminate()
        while stream.receive(answer):
            pass
        assert events.read().endswith(b"data: [DONE]\n\n")
    assert answer.error is None
    assert tokens_of(answer) == 60
    assert replica.process.wait(REPLICA_HANG_S) == 0
    assert not made & shared_memory_names()
    print(*replica.events()[-4:], sep="\n")
