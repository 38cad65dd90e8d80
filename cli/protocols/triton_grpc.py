"""Triton's protocol: ModelStreamInfer over gRPC with the tensors of the vLLM backend."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from cli.certificates import PublicTls
from cli.protocols.answer import NoAnswerError, Piece


def chat_text(prompt: str, system: str | None) -> str:
    """A conversation in ChatML, the template of the SmolLM2 and Qwen families.

    This protocol carries plain text: the engine applies no chat template to it.
    """
    instructions = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    return f"{instructions}<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"


async def stream_chat(
    gateway: str,
    model: str,
    prompt: str,
    *,
    system: str | None = None,
    max_tokens: int,
    timeout_s: float = 120.0,
    tls: PublicTls | None = None,
) -> AsyncIterator[Piece]:
    """Pieces of the answer at temperature 0, within `timeout_s` in all.

    `gateway` is host:port; with `tls` it is verified by its name.

    Raises NoAnswerError for an error of the gateway or the engine.
    """
    client = _client(gateway, tls)
    request = _request(model, chat_text(prompt, system), max_tokens)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield request

    try:
        async for result, error in client.stream_infer(requests(), stream_timeout=timeout_s):
            if error is not None:
                raise _failed(gateway, error)
            output = result.as_numpy("text_output")
            if output is not None and output.size:
                yield Piece(text=output.reshape(-1)[0].decode(errors="replace"))
    except InferenceServerException as error:
        raise _failed(gateway, error) from None
    except grpc.aio.AioRpcError as error:
        raise _no_answer(gateway, error.code().name, error.details() or "") from None
    finally:
        await client.close()


def _client(gateway: str, tls: PublicTls | None) -> Any:
    # The user's proxy must not see loopback requests.
    options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0)]
    if tls is None:
        return triton.InferenceServerClient(gateway, channel_args=options)
    found = tls.authorities_file
    return triton.InferenceServerClient(
        gateway,
        ssl=True,
        root_certificates=None if found is None else str(found),
        channel_args=[*options, ("grpc.ssl_target_name_override", tls.name)],
    )


def _request(model: str, text: str, max_tokens: int) -> dict[str, Any]:
    parameters = json.dumps({"max_tokens": max_tokens, "temperature": 0})
    return {
        "model_name": model,
        "inputs": [
            _text("text_input", text),
            _flag("stream", value=True),
            _text("sampling_parameters", parameters),
            _flag("exclude_input_in_output", value=True),
        ],
        "outputs": [triton.InferRequestedOutput("text_output")],
    }


def _text(name: str, value: str) -> Any:
    tensor = triton.InferInput(name, [1], "BYTES")
    tensor.set_data_from_numpy(np.array([value.encode()], dtype=np.object_))
    return tensor


def _flag(name: str, *, value: bool) -> Any:
    tensor = triton.InferInput(name, [1], "BOOL")
    tensor.set_data_from_numpy(np.array([value]))
    return tensor


def _failed(gateway: str, error: InferenceServerException) -> NoAnswerError:
    return _no_answer(gateway, str(error.status() or ""), str(error.message()))


def _no_answer(gateway: str, status: str, message: str) -> NoAnswerError:
    return NoAnswerError(
        f"{gateway}: {': '.join(part for part in (status, message) if part)}",
        fix="slipway status shows the models and their replicas",
    )
