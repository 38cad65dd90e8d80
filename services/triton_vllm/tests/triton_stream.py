"""A client of the decoupled gRPC stream, for tests."""

from __future__ import annotations

import json
import queue
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import tritonclient.grpc as triton  # type: ignore[import-untyped]
from hang import HANG_S


@dataclass
class Answer:
    """All responses to one request, and when they came."""

    responses: list[dict[str, list[Any]]] = field(default_factory=list)
    error: str | None = None
    final_flags: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        return b"".join(r["text_output"][0] for r in self.responses).decode("utf-8")


class TritonStream:
    """One bidirectional stream. Use as a context manager."""

    def __init__(self, url: str) -> None:
        self.client = triton.InferenceServerClient(url)
        self._arrivals: queue.Queue[tuple[Any, Any]] = queue.Queue()

    def __enter__(self) -> TritonStream:
        self.client.start_stream(lambda result, error: self._arrivals.put((result, error)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.client.stop_stream(cancel_requests=True)
        self.client.close()

    def send(self, text: str, model: str = "smollm2", **tensors: Any) -> None:
        inputs = [_input("text_input", text)]
        inputs += [_input(name, value) for name, value in tensors.items()]
        self._sent_at = time.monotonic()
        self.client.async_stream_infer(model, inputs, enable_empty_final_response=True)

    def receive(self, answer: Answer) -> bool:
        """Add the next response to `answer`; True while more are to come."""
        result, error = self._arrivals.get(timeout=2 * HANG_S)
        answer.seconds.append(time.monotonic() - self._sent_at)
        if error is not None:
            answer.error = str(error)
            return False
        response = result.get_response()
        final = response.parameters["triton_final_response"].bool_param
        answer.final_flags.append(final)
        if response.outputs:
            answer.responses.append(
                {o.name: result.as_numpy(o.name).tolist() for o in response.outputs}
            )
        return not final

    def ask(self, text: str, model: str = "smollm2", **tensors: Any) -> Answer:
        """Send, and wait for the last response."""
        self.send(text, model, **tensors)
        answer = Answer()
        while self.receive(answer):
            pass
        return answer


def sampling(**parameters: Any) -> str:
    return json.dumps(parameters)


def _input(name: str, value: Any) -> triton.InferInput:
    is_flag = isinstance(value, bool)
    tensor = triton.InferInput(name, [1], "BOOL" if is_flag else "BYTES")
    element = value if is_flag else value.encode() if isinstance(value, str) else value
    tensor.set_data_from_numpy(np.array([element], dtype=bool if is_flag else np.object_))
    return tensor
