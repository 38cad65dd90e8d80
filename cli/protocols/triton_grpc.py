"""Triton's protocol: ModelStreamInfer over gRPC with the tensors of the vLLM backend."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from cli.certificates import PublicTls
from cli.protocols.answer import NoAnswerError, Piece

TEXT = "text_output"
# Those of the prompt, and those of each piece of the answer.
COUNTS = ("num_input_tokens", "num_output_tokens")


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
    client = client_of(gateway, tls)
    request = request_of(model, chat_text(prompt, system), {"max_tokens": max_tokens})

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield request

    try:
        async for result, error in client.stream_infer(requests(), stream_timeout=timeout_s):
            if error is not None:
                raise _failed(gateway, error)
            output = result.as_numpy(TEXT)
            if output is not None and output.size:
                yield Piece(text=output.reshape(-1)[0].decode(errors="replace"))
    except InferenceServerException as error:
        raise _failed(gateway, error) from None
    except grpc.aio.AioRpcError as error:
        raise _no_answer(gateway, error.code().name, error.details() or "") from None
    finally:
        await client.close()


def client_of(gateway: str, tls: PublicTls | None) -> Any:
    """An InferenceServerClient of `gateway` (host:port)."""
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


def request_of(
    model: str, text: str, sampling: Mapping[str, Any], *, counted: bool = False
) -> dict[str, Any]:
    """The arguments of a streamed request at temperature 0; `counted` answers have the engine's
    numbers of tokens as well."""
    counts = COUNTS if counted else ()
    return {
        "model_name": model,
        "inputs": [
            _text("text_input", text),
            _flag("stream", value=True),
            _text("sampling_parameters", json.dumps({"temperature": 0, **sampling})),
            _flag("exclude_input_in_output", value=True),
            *(_flag(f"return_{name}", value=True) for name in counts),
        ],
        "outputs": [triton.InferRequestedOutput(name) for name in (TEXT, *counts)],
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
