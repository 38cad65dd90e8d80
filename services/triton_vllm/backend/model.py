"""Triton's Python model: the tensors of Triton's vLLM backend, answered by vLLM over HTTP.

Runs in Triton's stub process: C locale (text is handled as bytes), numpy below 2, no torch.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from beat import Beat
from engine_client import EngineClient, EngineError
from generation import Generation, RequestError, completion_body, read_generation
from outputs import ResponseBuilder

# How soon an abandoned request leaves the engine, even if it is still waiting.
CANCELLATION_POLL_S = 0.1

NUMPY_TYPES: dict[str, Any] = {
    "text_output": np.object_,
    "finish_reason": np.object_,
    "cumulative_logprob": np.float32,
    "logprobs": np.object_,
    "num_input_tokens": np.uint32,
    "num_output_tokens": np.uint32,
}


class TritonPythonModel:
    """One instance per model name. All requests run as tasks of one event loop in one thread."""

    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        self._model = str(config["name"])
        stated = config["parameters"]
        parameters = {key: each["string_value"] for key, each in stated.items()}
        self._beat = _no_beat
        if "beat_path" in parameters:
            beat = Beat(parameters["beat_path"], int(parameters["beat_number"]))
            self._beat = beat.beat
        # Kept alive for its metric, which ends with its family.
        self._in_flight_family = pb_utils.MetricFamily(
            name="slipway_triton_requests_in_flight",
            description="Requests taken from Triton and not yet answered in full",
            kind=pb_utils.MetricFamily.GAUGE,
        )
        self._in_flight = self._in_flight_family.Metric(labels={"model": self._model})
        # Two threads count, which Triton's metrics cannot handle: the second one's message
        # overwrites the one that the server is still reading, and the server dies of signal 11.
        self._counting = threading.Lock()
        self._active: dict[asyncio.Task[Any], Any] = {}  # to their senders
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="requests")
        self._thread.start()
        self._client: EngineClient = self._in_loop(self._start(parameters["engine_url"]))

    def execute(self, requests: list[Any]) -> None:
        """Takes requests; their tasks send the answers."""
        for request in requests:
            sender = request.get_response_sender()
            self._count(1)
            try:
                generation = read_generation(partial(_elements, request), request.parameters())
            except RequestError as error:
                self._finish(sender, _failure(str(error), pb_utils.TritonError.INVALID_ARG))
            except Exception as error:
                self._finish(sender, _mistake(error))
            else:
                self._loop.call_soon_threadsafe(self._accept, generation, sender)

    def finalize(self) -> None:
        self._in_loop(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self, engine_url: str) -> EngineClient:
        self._canceller = asyncio.create_task(self._cancel_abandoned())
        return EngineClient(engine_url)

    async def _stop(self) -> None:
        for task in (self._canceller, *self._active):
            task.cancel()
        await asyncio.gather(self._canceller, *self._active, return_exceptions=True)
        await self._client.close()

    def _accept(self, generation: Generation, sender: Any) -> None:
        task = self._loop.create_task(self._generate(generation, sender))
        self._active[task] = sender
        # Not by the task itself: a task that is cancelled before its first step runs no code.
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        # A sender must not be asked for cancellation after its last response.
        self._finish(self._active.pop(task), _last_response(task))

    async def _generate(self, generation: Generation, sender: Any) -> Any:
        """Sends all responses except the last, and returns that one."""
        body = completion_body(generation, self._model)

        async def decode_token(token_id: int) -> str:
            return await self._client.decode_token(self._model, token_id)

        builder = ResponseBuilder(generation, decode_token)
        last = None
        async for chunk in self._client.complete(body):
            if not chunk["choices"]:  # the stream's closing usage
                continue
            response = _response(await builder.tensors(chunk))
            if builder.finished:
                last = response
            else:
                sender.send(response)
        if last is None:
            raise EngineError("the engine ended the stream before it was complete", 503)
        return last

    async def _cancel_abandoned(self) -> None:
        """Triton does not report that a client left: its senders have to be polled."""
        while True:
            await asyncio.sleep(CANCELLATION_POLL_S)
            self._beat()
            for task, sender in list(self._active.items()):
                if sender.is_cancelled():
                    task.cancel()

    def _finish(self, sender: Any, response: Any) -> None:
        try:
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        except Exception as error:  # such as full shared memory; Triton does not allow a retry
            _log(error)
        finally:
            self._count(-1)  # or every drain would wait for this request

    def _count(self, change: int) -> None:
        with self._counting:
            self._in_flight.increment(change)

    def _in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _no_beat() -> None:
    """Nobody counts."""


def _elements(request: Any, name: str) -> list[Any] | None:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().ravel().tolist()


def _response(tensors: dict[str, list[Any]]) -> Any:
    return pb_utils.InferenceResponse(
        output_tensors=[
            pb_utils.Tensor(name, np.array(elements, dtype=NUMPY_TYPES[name]))
            for name, elements in tensors.items()
        ]
    )


def _last_response(task: asyncio.Task[Any]) -> Any:
    """Called when a request's task has ended, in whatever way."""
    if task.cancelled():
        return _failure("the request was cancelled", pb_utils.TritonError.CANCELLED)
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, EngineError):
        return _failure(str(error), _triton_code(error.status))
    return _mistake(error)


def _mistake(error: BaseException) -> Any:
    """Internal errors are reported to the client as well."""
    _log(error)
    return _failure(f"{type(error).__name__}: {error}", pb_utils.TritonError.INTERNAL)


def _log(error: BaseException) -> None:
    pb_utils.Logger.log_error(f"{type(error).__name__}: {error}")


def _failure(message: str, code: Any) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def _triton_code(status: int) -> Any:
    if status == 404:
        return pb_utils.TritonError.NOT_FOUND
    if 400 <= status < 500:
        return pb_utils.TritonError.INVALID_ARG
    if status == 503:
        return pb_utils.TritonError.UNAVAILABLE
    return pb_utils.TritonError.INTERNAL
