"""The OpenAI HTTP server: chat, completions, models, health, metrics and fault injection."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from simulator.engine import Engine, NotReadyError, RequestError
from simulator.faults import (
    FAULT_HEADER,
    NONE,
    BadFaultError,
    InjectedDeath,
    InjectedError,
    parse_json,
)
from simulator.generation import Generation
from simulator.inflight import InFlight
from simulator.openai.requests import (
    ApiError,
    ApiRequest,
    TurnedAwayError,
    parse_chat,
    parse_completion,
)
from simulator.openai.responses import (
    DONE,
    ChatFormat,
    CompletionFormat,
    Format,
    event,
    model_list,
    rendered,
)

_MAX_BODY_BYTES = 64 * 2**20
_EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}

Parse = Callable[[Mapping[str, Any], Sequence[str], str | None], ApiRequest]
MakeFormat = Callable[[str], Format]
_Response = TypeVar("_Response", bound=web.StreamResponse)


def make_app(engine: Engine, in_flight: InFlight) -> web.Application:
    handlers = _Handlers(engine, in_flight)
    app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[_errors])
    app.router.add_post("/v1/chat/completions", handlers.chat)
    app.router.add_post("/v1/completions", handlers.completion)
    app.router.add_post("/v1/chat/completions/render", handlers.render_chat)
    app.router.add_post("/v1/completions/render", handlers.render_completion)
    app.router.add_get("/v1/models", handlers.models)
    app.router.add_get("/health", handlers.health)
    app.router.add_get("/metrics", handlers.metrics)
    app.router.add_get("/sim/faults", handlers.get_faults)
    app.router.add_put("/sim/faults", handlers.put_faults)
    app.router.add_delete("/sim/faults", handlers.delete_faults)
    return app


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Any]
) -> web.StreamResponse:
    """Errors before the first byte of an answer, in OpenAI's format."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        kind = "NotFoundError" if error.status == 404 else "BadRequestError"
        return _error(ApiError(error.status, kind, error.reason))
    except ApiError as error:
        return _error(error)
    except RequestError as error:
        return _error(ApiError(400, "BadRequestError", str(error), "max_tokens"))
    except NotReadyError as error:
        return _error(ApiError(503, "ServiceUnavailableError", str(error)))
    except InjectedError as error:
        return _error(ApiError(500, "InternalServerError", str(error)))
    return response


def _error(error: ApiError) -> web.Response:
    return web.json_response(error.body(), status=error.status, headers=error.headers)


class _Handlers:
    def __init__(self, engine: Engine, in_flight: InFlight) -> None:
        self._engine = engine
        self._in_flight = in_flight

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_chat, ChatFormat)

    async def completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_completion, CompletionFormat)

    async def render_chat(self, request: web.Request) -> web.Response:
        return web.json_response(await self._rendered(request, parse_chat))

    async def render_completion(self, request: web.Request) -> web.Response:
        """A list, since vLLM's requests may have several prompts."""
        return web.json_response([await self._rendered(request, parse_completion)])

    async def models(self, _request: web.Request) -> web.Response:
        replica = self._engine.replica
        return web.json_response(model_list(replica.names, replica.engine.max_model_len))

    async def health(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self._engine.ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        text = generate_latest(self._engine.metrics.registry)
        return web.Response(body=text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def get_faults(self, request: web.Request) -> web.Response:
        _require_loopback(request)
        return web.json_response(self._engine.faults.to_json())

    async def put_faults(self, request: web.Request) -> web.Response:
        _require_loopback(request)
        try:
            self._engine.set_faults(parse_json(await _json_object(request)))
        except BadFaultError as error:
            raise ApiError(400, "BadRequestError", str(error)) from error
        return web.json_response(self._engine.faults.to_json())

    async def delete_faults(self, request: web.Request) -> web.Response:
        _require_loopback(request)
        self._engine.set_faults(NONE)
        return web.json_response(self._engine.faults.to_json())

    async def _rendered(self, request: web.Request, parse: Parse) -> dict[str, Any]:
        """What routers ask vLLM for to find a prompt's tokens; nothing is generated."""
        replica = self._engine.replica
        wanted = parse(await _json_object(request), replica.names, None)
        return rendered(replica.model, wanted.engine)

    async def _generate(
        self, request: web.Request, parse: Parse, make_format: MakeFormat
    ) -> web.StreamResponse:
        if self._engine.progress.turns_away:
            raise TurnedAwayError()
        with self._in_flight.request():
            replica = self._engine.replica
            fault = request.headers.get(FAULT_HEADER)
            wanted = parse(await _json_object(request), replica.names, fault)
            answer_format = make_format(replica.model)
            with self._engine.generate(wanted.engine) as generation:
                if wanted.stream:
                    return await _stream(request, wanted, generation, answer_format)
                return await _whole(request, generation, answer_format)


async def _whole(
    request: web.Request, generation: Generation, answer_format: Format
) -> web.Response:
    texts = []
    finish_reason = ""
    try:
        async for delta in generation.deltas():
            texts.append(delta.text)
            finish_reason = delta.finish_reason or finish_reason
    except InjectedDeath:
        return _cut(request, web.Response())
    return web.json_response(answer_format.whole("".join(texts), finish_reason, generation))


async def _stream(
    request: web.Request, wanted: ApiRequest, generation: Generation, answer_format: Format
) -> web.StreamResponse:
    """The headers come with the first token: an answer without headers has shown nothing."""
    response = web.StreamResponse(headers=_EVENT_STREAM)
    try:
        async for delta in generation.deltas():
            if not (delta.text or delta.finish_reason):
                continue
            if not response.prepared:
                await response.prepare(request)
                for body in answer_format.opening():
                    await response.write(event(body))
            await response.write(event(answer_format.chunk(delta.text, delta.finish_reason)))
    except InjectedDeath:
        return _cut(request, response)
    if wanted.include_usage:
        await response.write(event(answer_format.usage_chunk(generation)))
    await response.write(DONE)
    return response


def _cut(request: web.Request, response: _Response) -> _Response:
    """Close the connection in the middle of the answer."""
    if request.transport is not None:
        request.transport.close()
    return response


def _require_loopback(request: web.Request) -> None:
    if not ipaddress.ip_address(request.remote or "::").is_loopback:
        raise ApiError(403, "PermissionDeniedError", "faults can be set from this host only")


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise ApiError(400, "BadRequestError", f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "BadRequestError", "the body must be a JSON object")
    return body
