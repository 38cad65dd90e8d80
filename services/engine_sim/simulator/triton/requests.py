"""An inference request over either of Triton's protocols, and the tensors that answer it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from simulator.engine import Engine, NotReadyError, Request, RequestError
from simulator.faults import NONE, BadFaultError, Faults, InjectedError, parse_text
from simulator.generation import Generation
from simulator.triton.metrics import TritonMetrics
from simulator.triton.tensors import OUTPUTS

_DEFAULT_MAX_TOKENS = 16  # vLLM's SamplingParams

Outputs = dict[str, str | int]


class InferenceError(Exception):
    """The message goes to the client; `reason` is the label of nv_inference_request_failure."""

    def __init__(self, message: str, reason: str = "BACKEND") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    engine: Request
    stream: bool
    prepend_input: bool
    outputs: frozenset[str]


def parse_request(
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    requested: Collection[str],
    fault: str | None,
) -> InferenceRequest:
    """Read tensors and request parameters as Triton's vLLM backend does.

    `sampling_parameters` (a JSON object as text) takes precedence over the request's parameters.

    Raises:
        InferenceError: a value is missing or wrong.
    """
    prompt = inputs.get("text_input")
    if not isinstance(prompt, str):
        raise InferenceError("the input 'text_input' is required and must be text", "OTHER")
    unknown = sorted(set(requested) - set(OUTPUTS))
    if unknown:
        raise InferenceError(f"unexpected inference output '{unknown[0]}'", "OTHER")
    stream = _flag(inputs, "stream", default=False)
    prepend_input = not _flag(inputs, "exclude_input_in_output", default=stream)
    if prepend_input and stream:
        raise InferenceError("When streaming, `exclude_input_in_output` = False is not allowed.")
    return InferenceRequest(
        engine=_engine_request(prompt, _sampling(inputs, parameters), fault),
        stream=stream,
        prepend_input=prepend_input,
        outputs=_wanted_outputs(inputs, requested),
    )


@contextmanager
def inference(
    engine: Engine, metrics: TritonMetrics, request: InferenceRequest
) -> Iterator[AsyncIterator[tuple[Outputs, bool]]]:
    """The answer as pairs: output tensors, and whether they are the last.

    Raises:
        InferenceError: the engine refused.
    """
    try:
        with engine.generate(request.engine) as generation:
            yield _answers(request, generation)
    except (NotReadyError, RequestError, InjectedError) as error:
        raise InferenceError(str(error)) from error
    else:
        metrics.success()


async def _answers(
    request: InferenceRequest, generation: Generation
) -> AsyncIterator[tuple[Outputs, bool]]:
    texts = [request.engine.prompt] if request.prepend_input else []
    tokens = 0
    async for delta in generation.deltas():
        texts.append(delta.text)
        tokens += delta.tokens
        last = delta.finish_reason is not None
        if not last and not (request.stream and any(texts)):
            continue
        yield (
            _tensors(request, "".join(texts), delta.finish_reason, tokens, generation),
            last,
        )
        texts.clear()
        tokens = 0


def _tensors(
    request: InferenceRequest,
    text: str,
    finish_reason: str | None,
    tokens: int,
    generation: Generation,
) -> Outputs:
    every: Outputs = {
        "text_output": text,
        "finish_reason": str(finish_reason),
        "num_input_tokens": generation.prompt_tokens,
        "num_output_tokens": tokens,
    }
    return {name: value for name, value in every.items() if name in request.outputs}


def _wanted_outputs(inputs: Mapping[str, Any], requested: Collection[str]) -> frozenset[str]:
    produced = {"text_output"} | {
        name for name in OUTPUTS if _flag(inputs, f"return_{name}", default=False)
    }
    return frozenset(produced & set(requested) if requested else produced)


def _flag(inputs: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = inputs.get(name, default)
    if not isinstance(value, bool):
        raise InferenceError(f"the input '{name}' must be true or false", "OTHER")
    return value


def _sampling(inputs: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    given = inputs.get("sampling_parameters")
    if given is None:
        return parameters
    try:
        sampling = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise InferenceError(f"sampling_parameters is not JSON: {error}") from error
    if not isinstance(sampling, dict):
        raise InferenceError("sampling_parameters must be a JSON object")
    return sampling


def _engine_request(prompt: str, sampling: Mapping[str, Any], fault: str | None) -> Request:
    if sampling.get("lora_name"):
        raise InferenceError(f"LoRA {sampling['lora_name']} is not supported")
    if _integer(sampling, "n", 1) != 1:
        raise InferenceError("n must be 1")
    stop = sampling.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(text, str) and text for text in stops):
        raise InferenceError("stop must be a string or a list of strings")
    return Request(
        prompt=prompt,
        max_tokens=_integer(sampling, "max_tokens", _DEFAULT_MAX_TOKENS),
        stop=tuple(stops),
        faults=_faults(fault or sampling.get("slipway_fault")),
    )


def _integer(sampling: Mapping[str, Any], name: str, default: int) -> int:
    value = sampling.get(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):  # the last: infinity
        number = 0
    if number < 1:
        raise InferenceError(f"{name} must be at least 1, got {value}.")
    return number


def _faults(text: object) -> Faults:
    if text is None:
        return NONE
    try:
        return parse_text(str(text))
    except BadFaultError as error:
        raise InferenceError(str(error)) from error
