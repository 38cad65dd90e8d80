"""The HTTP server: Chat Completions, Completions, Responses, Messages, models, health, metrics and
fault injection."""

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
from simulator.messages_api import errors as messages_errors
from simulator.messages_api.requests import count_tokens, parse_message
from simulator.openai.fields import ApiError, TurnedAwayError
from simulator.openai.formats import Format, model_list, rendered
from simulator.openai.requests import ApiRequest, parse_chat, parse_completion
from simulator.responses_api.requests import not_found, parse_response

_MAX_BODY_BYTES = 64 * 2**20
_EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}

Parse = Callable[[Mapping[str, Any], Sequence[str], str | None], ApiRequest]
_Response = TypeVar("_Response", bound=web.StreamResponse)


def make_app(engine: Engine, in_flight: InFlight) -> web.Application:
    handlers = _Handlers(engine, in_flight)
    app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[_errors])
    app.router.add_post("/v1/chat/completions", handlers.chat)
    app.router.add_post("/v1/completions", handlers.completion)
    app.router.add_post("/v1/responses", handlers.response)
    app.router.add_get("/v1/responses/{id}", handlers.stored_response)
    app.router.add_post("/v1/responses/{id}/cancel", handlers.stored_response)
    app.router.add_post("/v1/messages", handlers.message)
    app.router.add_post("/v1/messages/count_tokens", handlers.count_tokens)
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
    """Errors before the first byte of an answer, in the API's form."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        kind = "NotFoundError" if error.status == 404 else "BadRequestError"
        return _refusal(request, ApiError(error.status, kind, error.reason))
    except ApiError as error:
        return _refusal(request, error)
    except RequestError as error:
        return _refusal(request, ApiError(400, "BadRequestError", str(error), "max_tokens"))
    except NotReadyError as error:
        return _refusal(request, ApiError(503, "ServiceUnavailableError", str(error)))
    except InjectedError as error:
        return _refusal(request, ApiError(500, "InternalServerError", str(error)))
    return response


def _refusal(request: web.Request, error: ApiError) -> web.Response:
    status, body = error.status, error.body()
    if request.path.startswith(messages_errors.PATHS):
        status, body = messages_errors.refusal(error.status, error.message)
    return web.json_response(body, status=status, headers=error.headers)


class _Handlers:
    def __init__(self, engine: Engine, in_flight: InFlight) -> None:
        self._engine = engine
        self._in_flight = in_flight

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_chat)

    async def completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_completion)

    async def response(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_response)

    async def stored_response(self, request: web.Request) -> web.Response:
        raise not_found(request.match_info["id"])

    async def message(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_message)

    async def count_tokens(self, request: web.Request) -> web.Response:
        tokens = count_tokens(await _json_object(request), self._engine.replica.names)
        managed = {"original_input_tokens": tokens}
        return web.json_response({"input_tokens": tokens, "context_management": managed})

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

    async def _generate(self, request: web.Request, parse: Parse) -> web.StreamResponse:
        if self._engine.progress.turns_away:
            raise TurnedAwayError()
        with self._in_flight.request():
            replica = self._engine.replica
            fault = request.headers.get(FAULT_HEADER)
            wanted = parse(await _json_object(request), replica.names, fault)
            with self._engine.generate(wanted.engine) as generation:
                answer = _stream if wanted.stream else _whole
                return await answer(request, generation, wanted.format)


async def _whole(
    request: web.Request, generation: Generation, answer_format: Format
) -> web.StreamResponse:
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
    request: web.Request, generation: Generation, answer_format: Format
) -> web.StreamResponse:
    """The headers come with the first token: an answer without headers has shown nothing."""
    response = web.StreamResponse(headers=_EVENT_STREAM)
    try:
        async for delta in generation.deltas():
            if not (delta.text or delta.finish_reason):
                continue
            if not response.prepared:
                await response.prepare(request)
                await response.write(answer_format.opening(generation))
            await response.write(answer_format.chunk(delta.text, delta.finish_reason))
    except InjectedDeath:
        return _cut(request, response)
    await response.write(answer_format.closing(generation))
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
