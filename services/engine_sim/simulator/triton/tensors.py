"""The model's tensors: names and types of Triton's vLLM backend, and their wire form."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from simulator.triton.protos import messages

VERSION = "1"

INPUTS: Mapping[str, str] = {
    "text_input": "BYTES",
    "stream": "BOOL",
    "sampling_parameters": "BYTES",
    "exclude_input_in_output": "BOOL",
    "return_finish_reason": "BOOL",
    "return_num_input_tokens": "BOOL",
    "return_num_output_tokens": "BOOL",
}
OUTPUTS: Mapping[str, str] = {
    "text_output": "BYTES",
    "finish_reason": "BYTES",
    "num_input_tokens": "UINT32",
    "num_output_tokens": "UINT32",
}


class TensorError(ValueError):
    """A tensor that the model does not have, or data that does not match its type."""


def read_inputs(request: Any) -> dict[str, str | bool]:
    """Input tensors of a ModelInferRequest by name, each of one element."""
    values: dict[str, str | bool] = {}
    raw = iter(request.raw_input_contents)
    for tensor in request.inputs:
        expected = INPUTS.get(tensor.name)
        if expected is None:
            raise TensorError(
                f"unexpected inference input '{tensor.name}' for model '{request.model_name}'"
            )
        if tensor.datatype != expected:
            raise TensorError(
                f"inference input '{tensor.name}' data-type is '{tensor.datatype}', but model "
                f"'{request.model_name}' expects '{expected}'"
            )
        if list(tensor.shape) != [1]:
            raise TensorError(f"unexpected shape for input '{tensor.name}': expected [1]")
        values[tensor.name] = _element(tensor, raw)
    return values


def infer_response(model: str, request_id: str, outputs: Mapping[str, str | int]) -> Any:
    """A ModelInferResponse with the given output tensors."""
    response = messages.ModelInferResponse(model_name=model, model_version=VERSION, id=request_id)
    for name, value in outputs.items():
        response.outputs.add(name=name, datatype=OUTPUTS[name], shape=[1])
        response.raw_output_contents.append(_raw(value))
    return response


def _element(tensor: Any, raw: Any) -> str | bool:
    typed = tensor.contents.bytes_contents or tensor.contents.bool_contents
    if len(typed) == 1:
        return typed[0].decode("utf-8", "replace") if tensor.datatype == "BYTES" else bool(typed[0])
    data: bytes = next(raw, b"")
    if tensor.datatype == "BOOL" and len(data) == 1:
        return data != b"\0"
    if tensor.datatype == "BYTES" and len(data) >= 4:
        (length,) = struct.unpack_from("<I", data)
        if len(data) == 4 + length:
            return data[4:].decode("utf-8", "replace")
    raise TensorError(f"unexpected byte size {len(data)} for input '{tensor.name}'")


def _raw(value: str | int) -> bytes:
    if isinstance(value, int):
        return struct.pack("<I", value)
    text = value.encode()
    return struct.pack("<I", len(text)) + text
