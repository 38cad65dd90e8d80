"""The ResourceProvider service: translates the protocol into calls of `Resource` objects."""

# ruff: noqa: ARG002, N802 - the signatures are those of the interface

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2_grpc,
    status_pb2,
)
from pulumi.runtime.proto import provider_pb2 as pb

from toolchain.plugins.process import engine_channel
from toolchain.plugins.resource import Operation, PartlyCreatedError, ProviderError, Resource
from toolchain.plugins.wire import Properties, decode, encode

CONFIG_KEYS_OF_THE_ENGINE = frozenset({"version", "pluginDownloadURL"})


@dataclass(frozen=True, kw_only=True)
class ProviderDefinition:
    """One provider: its name, its configuration and its resources.

    Attributes:
        config_keys: configuration properties it understands; any other is refused.
        resources: makes {type token: resource} from the configuration.
    """

    name: str
    version: str
    config_keys: frozenset[str]
    resources: Callable[[Properties], Mapping[str, Resource]]


class ProviderServer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one configured provider."""

    def __init__(self, definition: ProviderDefinition, engine_address: str) -> None:
        self._definition = definition
        self._engine = engine_pb2_grpc.EngineStub(engine_channel(engine_address))
        self._resources: Mapping[str, Resource] = {}
        self._cancelled = threading.Event()

    def register(self, server: grpc.Server) -> None:
        """Add this service to `server`."""
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self, server)

    def stop(self) -> None:
        """Interrupt every operation."""
        self._cancelled.set()

    def Handshake(
        self, request: pb.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> pb.ProviderHandshakeResponse:
        return (
            pb.ProviderHandshakeResponse()
        )  # neither secrets nor resource references: see wire.py

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._definition.version)

    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        self._cancelled.set()
        return Empty()

    def CheckConfig(
        self, request: pb.CheckRequest, context: grpc.ServicerContext
    ) -> pb.CheckResponse:
        known = self._definition.config_keys | CONFIG_KEYS_OF_THE_ENGINE
        failures = [
            pb.CheckFailure(
                property=key,
                reason=f"the registry-only {self._definition.name} plugin knows no {key!r}; "
                f"it takes {', '.join(sorted(self._definition.config_keys))}",
            )
            for key in sorted(decode(request.news).keys() - known)
        ]
        return pb.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: pb.DiffRequest, context: grpc.ServicerContext) -> pb.DiffResponse:
        # Another address or token is the same provider: nothing it made is replaced.
        changed = decode(request.old_inputs) != decode(request.news)
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE
        )

    def Configure(
        self, request: pb.ConfigureRequest, context: grpc.ServicerContext
    ) -> pb.ConfigureResponse:
        with _reporting(context):
            self._resources = self._definition.resources(decode(request.args))
        return pb.ConfigureResponse(supportsPreview=True)

    def Check(self, request: pb.CheckRequest, context: grpc.ServicerContext) -> pb.CheckResponse:
        with _reporting(context):
            failures = self._resource(request.urn).check(decode(request.news))
        return pb.CheckResponse(
            inputs=request.news,
            failures=[pb.CheckFailure(property=p, reason=r) for p, r in sorted(failures.items())],
        )

    def Diff(self, request: pb.DiffRequest, context: grpc.ServicerContext) -> pb.DiffResponse:
        with _reporting(context):
            difference = self._resource(request.urn).diff(
                request.id, decode(request.old_inputs), decode(request.olds), decode(request.news)
            )
        ignored = set(request.ignoreChanges)
        replaces = difference.replaces - ignored
        changed = (difference.changed | replaces) - ignored
        kinds = pb.PropertyDiff
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE,
            diffs=sorted(changed),
            replaces=sorted(replaces),
            hasDetailedDiff=True,
            detailedDiff={
                name: pb.PropertyDiff(
                    kind=kinds.UPDATE_REPLACE if name in replaces else kinds.UPDATE
                )
                for name in changed
            },
        )

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        resource, new = self._resource(request.urn), decode(request.properties)
        if request.preview:
            return pb.CreateResponse(properties=encode(resource.planned(new, None)))
        with _reporting(context):
            resource_id, outputs = resource.create(new, self._operation(request))
        return pb.CreateResponse(id=resource_id, properties=encode(outputs))

    def Read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> pb.ReadResponse:
        with _reporting(context):
            snapshot = self._resource(request.urn).read(
                request.id, decode(request.inputs), decode(request.properties)
            )
        if snapshot is None:
            return pb.ReadResponse()
        resource_id = str(snapshot.outputs.get("id") or request.id)
        return pb.ReadResponse(
            id=resource_id, inputs=encode(snapshot.inputs), properties=encode(snapshot.outputs)
        )

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:
        resource, old, new = (
            self._resource(request.urn),
            decode(request.olds),
            decode(request.news),
        )
        if request.preview:
            return pb.UpdateResponse(properties=encode(resource.planned(new, old)))
        with _reporting(context):
            outputs = resource.update(request.id, old, new, self._operation(request))
        return pb.UpdateResponse(properties=encode(outputs))

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        with _reporting(context):
            self._resource(request.urn).delete(
                request.id, decode(request.properties), self._operation(request)
            )
        return Empty()

    def _resource(self, urn: str) -> Resource:
        token = urn.split("::")[2].rpartition("$")[2]
        if token not in self._resources:
            raise ProviderError(
                f"the registry-only {self._definition.name} plugin has no {token}; "
                f"it has {', '.join(sorted(self._resources))}"
            )
        return self._resources[token]

    def _operation(
        self, request: pb.CreateRequest | pb.UpdateRequest | pb.DeleteRequest
    ) -> Operation:
        urn = request.urn

        def log(line: str) -> None:
            message = engine_pb2.LogRequest(
                severity=engine_pb2.INFO, message=line, urn=urn, ephemeral=True
            )
            self._engine.Log(message)

        return Operation(urn=urn, timeout_s=request.timeout, log=log, cancelled=self._cancelled)


@contextmanager
def _reporting(context: grpc.ServicerContext) -> Iterator[None]:
    """Turn provider errors into gRPC statuses: a message for the user, not a traceback."""
    try:
        yield
    except PartlyCreatedError as problem:
        context.abort_with_status(_partly_created_status(problem))
    except ProviderError as problem:
        context.abort(grpc.StatusCode.UNKNOWN, str(problem))


class _Status(grpc.Status):  # type: ignore[misc]
    def __init__(self, code: grpc.StatusCode, details: str, metadata: Any) -> None:
        self.code = code
        self.details = details
        self.trailing_metadata = metadata


def _partly_created_status(problem: PartlyCreatedError) -> _Status:
    detail = AnyMessage()
    detail.Pack(
        pb.ErrorResourceInitFailed(
            id=problem.resource_id, properties=encode(problem.outputs), reasons=[str(problem)]
        )
    )
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=str(problem), details=[detail])
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    return _Status(code, str(problem), metadata)
