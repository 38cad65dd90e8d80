"""Triton's gRPC API: inference.GRPCInferenceService and grpc.health.v1.Health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from simulator.engine import Engine
from simulator.faults import FAULT_HEADER, InjectedDeath
from simulator.inflight import InFlight
from simulator.together import Together
from simulator.triton.metrics import TritonMetrics
from simulator.triton.protos import config, messages, services
from simulator.triton.requests import InferenceError, inference, parse_request
from simulator.triton.tensors import (
    INPUTS,
    OUTPUTS,
    VERSION,
    TensorError,
    infer_response,
    read_inputs,
)

SERVER_NAME = "slipway-engine-sim"
_FINAL = "triton_final_response"


def make_server(engine: Engine, metrics: TritonMetrics, in_flight: InFlight) -> grpc.aio.Server:
    options = (
        # Two processes must not share a port by accident: the second one must fail.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", -1),
        # As for Triton (replica/triton.py of services/triton_vllm): Envoy pings a quiet
        # connection every 20 s, and gRPC would close it at the third ping.
        ("grpc.http2.max_ping_strikes", 0),
    )
    server = grpc.aio.server(options=options)
    inference_service = _Inference(engine, metrics, in_flight)
    services.add_GRPCInferenceServiceServicer_to_server(inference_service, server)
    health_pb2_grpc.add_HealthServicer_to_server(_Health(engine), server)
    return server


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.service not in ("", "inference.GRPCInferenceService"):
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if self._engine.ready else states.NOT_SERVING)


class _Inference(services.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Methods that are not overridden answer UNIMPLEMENTED."""

    def __init__(self, engine: Engine, metrics: TritonMetrics, in_flight: InFlight) -> None:
        self._engine = engine
        self._metrics = metrics
        self._in_flight = in_flight

    async def ServerLive(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return messages.ServerReadyResponse(ready=self._engine.ready)

    async def ModelReady(self, request: Any, _context: Any) -> Any:  # noqa: N802
        known = request.name in self._engine.replica.names and request.version in ("", VERSION)
        return messages.ModelReadyResponse(ready=known and self._engine.ready)

    async def ServerMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return messages.ServerMetadataResponse(name=SERVER_NAME, version=VERSION)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._require_model(request.name, context)
        return messages.ModelMetadataResponse(
            name=request.name,
            versions=[VERSION],
            platform=SERVER_NAME,
            inputs=[_metadata(name, kind) for name, kind in INPUTS.items()],
            outputs=[_metadata(name, kind) for name, kind in OUTPUTS.items()],
        )

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._require_model(request.name, context)
        model = config.ModelConfig(
            name=request.name,
            backend=SERVER_NAME,
            max_batch_size=0,
            input=[_config_input(name, kind) for name, kind in INPUTS.items()],
            output=[
                config.ModelOutput(name=name, data_type=_data_type(kind), dims=[1])
                for name, kind in OUTPUTS.items()
            ],
        )
        model.model_transaction_policy.decoupled = True
        return messages.ModelConfigResponse(config=model)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._require_model(request.model_name, context)
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "ModelInfer RPC doesn't support models with decoupled transaction policy",
        )

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        """Requests of one stream run in parallel; answers carry the request's id."""
        stream, tasks = _Stream(context), Together()

        async def read() -> None:
            async for request in requests:
                tasks.start(self._answer(request, stream))

        tasks.start(read())
        try:
            await tasks.ended()
        except InjectedDeath:  # what a client sees when the server is killed
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")

    async def _answer(self, request: Any, stream: _Stream) -> None:
        with self._in_flight.request():
            try:
                await self._infer(request, stream)
            except InjectedDeath:
                self._metrics.failure("BACKEND")
                raise
            except (InferenceError, TensorError) as error:
                self._metrics.failure(getattr(error, "reason", "OTHER"))
                await stream.error(request.id, str(error))
            except ClientGoneError:
                self._metrics.failure("CANCELED")
            except BaseException:
                self._metrics.failure("CANCELED")
                raise

    async def _infer(self, request: Any, stream: _Stream) -> None:
        if request.model_name not in self._engine.replica.names:
            raise InferenceError(
                f"Request for unknown model: '{request.model_name}' is not found", "OTHER"
            )
        wanted = parse_request(
            read_inputs(request),
            {name: _parameter(value) for name, value in request.parameters.items()},
            [output.name for output in request.outputs],
            stream.fault,
        )
        with inference(self._engine, self._metrics, wanted) as answers:
            async for outputs, last in answers:
                response = infer_response(request.model_name, request.id, outputs)
                response.parameters[_FINAL].bool_param = last
                await stream.send(messages.ModelStreamInferResponse(infer_response=response))

    async def _require_model(self, name: str, context: Any) -> None:
        if name not in self._engine.replica.names:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' is not found"
            )


class ClientGoneError(Exception):
    """The client closed the stream while it was being answered."""


class _Stream:
    """The sending half of a stream, shared by its requests."""

    def __init__(self, context: Any) -> None:
        metadata = dict(context.invocation_metadata() or ())
        self.fault: str | None = metadata.get(FAULT_HEADER)
        self._context = context
        self._turn = asyncio.Lock()  # one message may be written at a time

    async def send(self, response: Any) -> None:
        """Raises ClientGoneError if the client has closed the stream."""
        async with self._turn:
            try:
                await self._context.write(response)
            except (grpc.aio.InternalError, grpc.aio.UsageError) as error:
                raise ClientGoneError from error

    async def error(self, request_id: str, message: str) -> None:
        """Errors of a request are messages of the stream, whose status stays OK."""
        response = messages.ModelStreamInferResponse(error_message=message)
        response.infer_response.id = request_id
        response.infer_response.parameters[_FINAL].bool_param = True
        await self.send(response)


def _parameter(value: Any) -> Any:
    return getattr(value, value.WhichOneof("parameter_choice") or "string_param")


def _metadata(name: str, kind: str) -> Any:
    return messages.ModelMetadataResponse.TensorMetadata(name=name, datatype=kind, shape=[1])


def _config_input(name: str, kind: str) -> Any:
    return config.ModelInput(
        name=name, data_type=_data_type(kind), dims=[1], optional=name != "text_input"
    )


def _data_type(kind: str) -> Any:
    return getattr(config, "TYPE_STRING" if kind == "BYTES" else f"TYPE_{kind}")
