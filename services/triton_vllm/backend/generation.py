"""A Triton request, and its translation to vLLM's completions API. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ADDITIONAL_OUTPUTS = (
    "finish_reason",
    "cumulative_logprob",
    "logprobs",
    "num_input_tokens",
    "num_output_tokens",
)

# vLLM's SamplingParams that its completions API takes too, plus `lora_name` of the Triton backend
SAMPLING_PARAMETERS = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "frequency_penalty",
        "ignore_eos",
        "include_stop_str_in_output",
        "logit_bias",
        "logprobs",
        "lora_name",
        "max_tokens",
        "min_p",
        "min_tokens",
        "n",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop",
        "stop_token_ids",
        "structured_outputs",
        "temperature",
        "top_k",
        "top_p",
        "truncate_prompt_tokens",
    }
)

# Every response has an element per choice, so the cost of a stream grows with the square of `n`.
# The engine has the same limit (replica/engine.py).
MOST_CHOICES = 128

# Reads one input tensor: its elements, or None if the client left it out.
TensorReader = Callable[[str], list[Any] | None]


class RequestError(Exception):
    """An invalid request; the text is for the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One request in typed values."""

    prompt: str
    stream: bool
    prepend_prompt: bool
    sampling: Mapping[str, Any]
    additional_outputs: frozenset[str]

    @property
    def choices(self) -> int:
        return int(self.sampling.get("n", 1))


def read_generation(tensor: TensorReader, request_parameters: str) -> Generation:
    """Reads a request's tensors.

    `request_parameters` is the JSON of Triton's request parameters, which stand in for
    `sampling_parameters` if that tensor is left out (HTTP `generate` turns every unknown field into
    one). Raises RequestError.
    """
    if tensor("image"):
        raise RequestError("image: this model takes text only")
    if tensor("embedding_request"):
        raise RequestError("embedding_request: this model generates text, not embeddings")
    stream = _flag(tensor("stream"), default=False)
    exclude = _flag(tensor("exclude_input_in_output"), default=stream)
    if stream and not exclude:
        raise RequestError("exclude_input_in_output=false cannot be combined with stream=true")
    return Generation(
        prompt=_text("text_input", tensor("text_input")),
        stream=stream,
        prepend_prompt=not exclude,
        sampling=_sampling(tensor("sampling_parameters"), request_parameters),
        additional_outputs=frozenset(
            name for name in ADDITIONAL_OUTPUTS if _flag(tensor(f"return_{name}"), default=False)
        ),
    )


def completion_body(generation: Generation, model: str) -> dict[str, Any]:
    """The document for `POST /v1/completions`."""
    body = dict(generation.sampling)
    wanted = generation.additional_outputs
    body |= {
        "model": body.pop("lora_name", None) or model,
        "prompt": generation.prompt,
        "stream": generation.stream,
    }
    if generation.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if "cumulative_logprob" in wanted:
        body.setdefault("logprobs", 0)  # the chosen tokens' own
    if "logprobs" in wanted:
        body["return_tokens_as_token_ids"] = True
    if "num_output_tokens" in wanted:
        body["return_token_ids"] = True
    return body


def _sampling(tensor: list[Any] | None, request_parameters: str) -> dict[str, Any]:
    if tensor:
        source, text = "sampling_parameters", _text("sampling_parameters", tensor)
    else:
        source, text = "request parameters", request_parameters or "{}"
    try:
        sampling = json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise RequestError(f"{source}: not JSON: {error}") from error
    if not isinstance(sampling, dict):
        raise RequestError(f"{source}: expected a JSON object")
    if not tensor:
        # Triton's own, such as triton_enable_empty_final_response
        sampling = {k: v for k, v in sampling.items() if not k.startswith("triton_")}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS)
    if unknown:
        raise RequestError(f"{source}: unknown {', '.join(unknown)}")
    choices = sampling.get("n", 1)
    if type(choices) is not int or not 1 <= choices <= MOST_CHOICES:
        raise RequestError(f"{source}: n must be a whole number from 1 to {MOST_CHOICES}")
    return sampling


def _flag(values: list[Any] | None, *, default: bool) -> bool:
    return bool(values[0]) if values else default


def _text(name: str, values: list[Any] | None) -> str:
    if not values:
        raise RequestError(f"{name}: missing")
    value = values[0]
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}: not UTF-8: {error}") from error
