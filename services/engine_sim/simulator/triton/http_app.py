"""Triton's HTTP API (health, metadata, generate, generate_stream) and its metrics port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from simulator.engine import Engine
from simulator.faults import FAULT_HEADER, InjectedDeath
from simulator.inflight import InFlight
from simulator.triton.metrics import TritonMetrics
from simulator.triton.requests import (
    InferenceError,
    InferenceRequest,
    Outputs,
    inference,
    parse_request,
)
from simulator.triton.tensors import INPUTS, OUTPUTS, VERSION

_SERVER_NAME = "slipway-engine-sim"
_MAX_BODY_BYTES = 64 * 2**20
_MODEL = "/v2/models/{model}"
_ONE_RESPONSE_ONLY = (
    "generate expects model to produce exactly 1 response, use generate stream for models that "
    "may produce 0 or more responses"
)


def make_app(engine: Engine, metrics: TritonMetrics, in_flight: InFlight) -> web.Application:
    handlers = _Handlers(engine, metrics, in_flight)
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_get("/v2", handlers.server_metadata)
    app.router.add_get("/v2/health/live", handlers.live)
    app.router.add_get("/v2/health/ready", handlers.ready)
    for model in (_MODEL, f"{_MODEL}/versions/{{version}}"):
        app.router.add_get(model, handlers.model_metadata)
        app.router.add_get(f"{model}/ready", handlers.model_ready)
        app.router.add_post(f"{model}/infer", handlers.infer)
        app.router.add_post(f"{model}/generate", handlers.generate)
        app.router.add_post(f"{model}/generate_stream", handlers.generate_stream)
    return app


def make_metrics_app(metrics: TritonMetrics) -> web.Application:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=metrics.text(), content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


class _Handlers:
    def __init__(self, engine: Engine, metrics: TritonMetrics, in_flight: InFlight) -> None:
        self._engine = engine
        self._metrics = metrics
        self._in_flight = in_flight

    async def server_metadata(self, _request: web.Request) -> web.Response:
        return web.json_response({"name": _SERVER_NAME, "version": VERSION, "extensions": []})

    async def live(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def ready(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self._engine.ready else 400)

    async def model_ready(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._knows(request) and self._engine.ready else 400)

    async def model_metadata(self, request: web.Request) -> web.Response:
        if not self._knows(request):
            return self._unknown_model(request)
        return web.json_response(
            {
                "name": request.match_info["model"],
                "versions": [VERSION],
                "platform": _SERVER_NAME,
                "inputs": _tensors(INPUTS),
                "outputs": _tensors(OUTPUTS),
            }
        )

    async def infer(self, request: web.Request) -> web.Response:
        if not self._knows(request):
            return self._unknown_model(request)
        message = "HTTP end point doesn't support models with decoupled transaction policy"
        return _error(message)

    async def generate(self, request: web.Request) -> web.Response:
        if not self._knows(request):
            return self._unknown_model(request)
        model = request.match_info["model"]
        with self._in_flight.request():
            try:
                wanted = await _read(request)
                if wanted.stream:
                    return _error(_ONE_RESPONSE_ONLY)
                with inference(self._engine, self._metrics, wanted) as answers:
                    outputs, _ = await anext(answers)
                    return web.json_response(_body(model, outputs))
            except InjectedDeath:
                self._die(request)
                return web.Response()
            except InferenceError as error:
                self._metrics.failure(error.reason)
                return _error(str(error))
            except BaseException:
                self._metrics.failure("CANCELED")
                raise

    async def generate_stream(self, request: web.Request) -> web.StreamResponse:
        if not self._knows(request):
            return self._unknown_model(request)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        with self._in_flight.request():
            try:
                wanted = await _read(request)
                await self._stream(request, wanted, response)
            except InjectedDeath:
                self._die(request)
            except InferenceError as error:
                self._metrics.failure(error.reason)
                return _error(str(error))
            except BaseException:
                self._metrics.failure("CANCELED")
                raise
        return response

    async def _stream(
        self, request: web.Request, wanted: InferenceRequest, response: web.StreamResponse
    ) -> None:
        model = request.match_info["model"]
        with inference(self._engine, self._metrics, wanted) as answers:
            async for outputs, _ in answers:
                if not response.prepared:  # headers come with the first token
                    await response.prepare(request)
                await response.write(f"data: {json.dumps(_body(model, outputs))}\n\n".encode())

    def _knows(self, request: web.Request) -> bool:
        version = request.match_info.get("version", VERSION)
        known = request.match_info["model"] in self._engine.replica.names
        return known and version == VERSION

    def _unknown_model(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        return _error(f"Request for unknown model: '{model}' is not found", status=404)

    def _die(self, request: web.Request) -> None:
        self._metrics.failure("BACKEND")
        if request.transport is not None:
            request.transport.close()


async def _read(request: web.Request) -> InferenceRequest:
    """Keys named like an input tensor are inputs, at any level; all others are parameters."""
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise InferenceError(
            f"failed to parse the request JSON buffer: {error}", "OTHER"
        ) from error
    if not isinstance(body, dict):
        raise InferenceError("the request must be a JSON object", "OTHER")
    nested = body.pop("parameters", {})
    if not isinstance(nested, dict):
        raise InferenceError("parameters must be a JSON object", "OTHER")
    values: Mapping[str, Any] = {**body, **nested}
    inputs = {name: value for name, value in values.items() if name in INPUTS}
    others = {name: value for name, value in values.items() if name not in INPUTS}
    return parse_request(inputs, others, (), request.headers.get(FAULT_HEADER))


def _tensors(tensors: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "datatype": kind, "shape": [1]} for name, kind in tensors.items()]


def _body(model: str, outputs: Outputs) -> dict[str, Any]:
    return {"model_name": model, "model_version": VERSION, **outputs}


def _error(message: str, status: int = 400) -> web.Response:
    return web.json_response({"error": message}, status=status)
