# mypy: disable-error-code="import-untyped"
"""A replica without a model: both protocols answer with the replica's marker, as slowly as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
from aiohttp import web
from control_plane.resources.health_checks import LIVENESS_PATH
from control_plane.routing import Endpoint
from tritonclient.grpc import service_pb2, service_pb2_grpc

from support.waiting import ADDRESS

_END = object()


class FakeReplica(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """`release` lets held answers finish: a request with `held` is held before its answer, another
    one with `stream` after its first token. `cut` ends the connections of both. Its liveness page
    says whether it is `moving`.

    A gRPC stream answers each message with one response that names the marker and the model.
    """

    def __init__(self, marker: str, *, address: str = ADDRESS) -> None:
        self.marker = marker
        self.address = address
        self.release = asyncio.Event()
        self.status = 200
        self.moving = True
        self._answering: list[asyncio.BaseTransport] = []
        self.requests: list[dict[str, Any]] = []
        self.in_flight = 0

    async def __aenter__(self) -> FakeReplica:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._openai)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.address, 0)
        await site.start()
        self.http_port = int(self._runner.addresses[0][1])
        self._grpc = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._grpc)
        self.grpc_port = self._grpc.add_insecure_port(f"{self.address}:0")
        await self._grpc.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._grpc.stop(0)
        await self._runner.cleanup()

    def openai(self, *, healthy: bool = True) -> Endpoint:
        return Endpoint(self.address, self.http_port, healthy)

    def watched(self, port: int) -> Endpoint:
        """One of its ports, with its liveness page."""
        return Endpoint(self.address, port, True, self.marker, self.http_port)

    def cut(self) -> None:
        for transport in self._answering:
            assert isinstance(transport, asyncio.Transport)
            transport.abort()

    def grpc(self, *, healthy: bool = True) -> Endpoint:
        return Endpoint(self.address, self.grpc_port, healthy)

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        if request.path == LIVENESS_PATH:
            return web.json_response({"moving": self.moving}, status=200 if self.moving else 503)
        transport = request.transport
        assert transport is not None
        self._answering.append(transport)
        try:
            return await self._answer(request)
        finally:
            self._answering.remove(transport)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        document = json.loads(body) if body else {}
        self.requests.append({"path": request.path, "bytes": len(body), **document})
        if document.get("held"):
            await self.release.wait()
        if not document.get("stream"):
            answer = {"marker": self.marker, "model": document.get("model")}
            return web.json_response(answer, status=self.status)
        self.in_flight += 1
        try:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(f"data: {self.marker}\n\n".encode())
            await self.release.wait()
            await response.write(b"data: [DONE]\n\n")
            return response
        finally:
            self.in_flight -= 1

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[Any]:
        self.in_flight += 1
        try:
            async for request in requests:
                yield service_pb2.ModelStreamInferResponse(
                    infer_response=self._infer_response(request)
                )
        finally:
            self.in_flight -= 1

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._infer_response(request)

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelReadyResponse(ready=request.name in ("tiny", "small"))

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelMetadataResponse(name=request.name, platform=self.marker)

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.RepositoryIndexResponse()

    def _infer_response(self, request: Any) -> Any:
        return service_pb2.ModelInferResponse(
            model_name=request.model_name, id=request.id, model_version=self.marker
        )
