"""The tensors of Triton's vLLM backend, through the real server."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from generation import MOST_CHOICES
from hang import HANG_S
from replica_process import ALIAS, HTTP_PORT, MODEL, ReplicaProcess
from triton_stream import TritonStream, sampling

INPUTS = {
    "text_input": "BYTES",
    "image": "BYTES",
    "stream": "BOOL",
    "sampling_parameters": "BYTES",
    "exclude_input_in_output": "BOOL",
    "return_finish_reason": "BOOL",
    "return_cumulative_logprob": "BOOL",
    "return_logprobs": "BOOL",
    "return_num_input_tokens": "BOOL",
    "return_num_output_tokens": "BOOL",
    "embedding_request": "BYTES",
}
OUTPUTS = {
    "text_output": ("BYTES", [-1]),
    "finish_reason": ("BYTES", [-1]),
    "cumulative_logprob": ("FP32", [-1]),
    "logprobs": ("BYTES", [-1]),
    "num_input_tokens": ("UINT32", [1]),
    "num_output_tokens": ("UINT32", [-1]),
}
EVERY_OUTPUT: dict[str, Any] = {name: True for name in INPUTS if name.startswith("return_")}


@pytest.mark.parametrize("name", [MODEL, ALIAS])
def test_the_metadata_names_every_tensor_with_type_and_shape(
    stream: TritonStream, name: str
) -> None:
    metadata = stream.client.get_model_metadata(name)
    assert {tensor.name: tensor.datatype for tensor in metadata.inputs} == INPUTS
    assert {t.name: (t.datatype, list(t.shape)) for t in metadata.outputs} == OUTPUTS


def test_only_the_text_input_is_required_and_the_model_is_decoupled(stream: TritonStream) -> None:
    config = stream.client.get_model_config(MODEL).config
    assert [tensor.name for tensor in config.input if not tensor.optional] == ["text_input"]
    assert config.model_transaction_policy.decoupled
    assert config.max_batch_size == 0


def test_only_the_text_comes_back_unless_more_is_asked_for(stream: TritonStream) -> None:
    answer = stream.ask("one two", stream=True, sampling_parameters=sampling(max_tokens=2))
    assert [set(response) for response in answer.responses] == [{"text_output"}] * 2


def test_every_output_comes_with_each_streamed_response(stream: TritonStream) -> None:
    parameters = sampling(max_tokens=3, logprobs=1)
    answer = stream.ask("one two", stream=True, sampling_parameters=parameters, **EVERY_OUTPUT)
    assert answer.error is None
    assert [r["text_output"] for r in answer.responses] == [[b" one"], [b" two"], [b" one"]]
    assert [r["finish_reason"] for r in answer.responses] == [[b"None"], [b"None"], [b"length"]]
    assert [r["cumulative_logprob"] for r in answer.responses] == [[-0.5], [-1.0], [-1.5]]
    assert [r["num_input_tokens"] for r in answer.responses] == [[2]] * 3
    assert [r["num_output_tokens"] for r in answer.responses] == [[1]] * 3
    assert json.loads(answer.responses[1]["logprobs"][0]) == [
        {
            "900": {"logprob": -0.25, "rank": 1, "decoded_token": "<900>"},
            "1": {"logprob": -0.5, "rank": None, "decoded_token": "<1>"},
        }
    ]


def test_every_output_comes_with_the_one_response_of_a_whole_answer(stream: TritonStream) -> None:
    parameters = sampling(max_tokens=3, logprobs=1)
    answer = stream.ask("one two", sampling_parameters=parameters, **EVERY_OUTPUT)
    (response,) = answer.responses
    assert len(json.loads(response.pop("logprobs")[0])) == 3
    assert response == {
        "text_output": [b"one two one two one"],  # prompt first: stream and exclude are left out
        "finish_reason": [b"length"],
        "cumulative_logprob": [-1.5],
        "num_input_tokens": [2],
        "num_output_tokens": [3],
    }


def test_logprobs_are_null_when_sampling_asked_for_none(stream: TritonStream) -> None:
    answer = stream.ask("one", return_logprobs=True, return_cumulative_logprob=True)
    assert answer.responses[0]["logprobs"] == [b"null"]
    assert answer.responses[0]["cumulative_logprob"] == [-8.0]  # 16 tokens are vLLM's default


def test_several_choices_are_elements_of_one_tensor(stream: TritonStream) -> None:
    parameters = sampling(max_tokens=1, n=2)
    whole = stream.ask("one", exclude_input_in_output=True, sampling_parameters=parameters)
    assert whole.responses[0]["text_output"] == [b" one", b" one"]
    streamed = stream.ask("one", stream=True, sampling_parameters=parameters)
    assert [r["text_output"] for r in streamed.responses] == [[b" one", b""], [b"", b" one"]]
    assert streamed.final_flags == [False, True]


def test_as_many_choices_as_are_allowed_are_answered(stream: TritonStream) -> None:
    parameters = sampling(max_tokens=1, n=MOST_CHOICES)
    answer = stream.ask("one", exclude_input_in_output=True, sampling_parameters=parameters)
    assert answer.responses[0]["text_output"] == [b" one"] * 128


def test_an_unknown_lora_is_the_engines_refusal_in_band(stream: TritonStream) -> None:
    answer = stream.ask("one", sampling_parameters=sampling(lora_name="legal"))
    assert answer.error is not None
    assert "The model `legal` does not exist." in answer.error


def test_http_generate_takes_sampling_parameters_as_fields(replica: ReplicaProcess) -> None:
    reply = _post(replica, "generate", {"text_input": "a b", "max_tokens": 1, "stream": False})
    assert json.loads(reply)["text_output"] == "a b a"


def test_http_generate_stream_sends_one_event_per_token(replica: ReplicaProcess) -> None:
    body = {"text_input": "a b", "sampling_parameters": sampling(max_tokens=3), "stream": True}
    reply = _post(replica, "generate_stream", body)
    events = [json.loads(line[len("data:") :]) for line in reply.splitlines() if line]
    assert [event["text_output"] for event in events] == [" a", " b", " a"]


def _post(replica: ReplicaProcess, verb: str, body: dict[str, object]) -> str:
    url = f"http://{replica.address}:{HTTP_PORT}/v2/models/{ALIAS}/{verb}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=HANG_S) as reply:
        content: bytes = reply.read()
        return content.decode()
