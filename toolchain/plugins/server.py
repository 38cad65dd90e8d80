"""The ResourceProvider service: translates the protocol into calls of `Resource` objects."""

# ruff: noqa: N802 - the protocol defines the names

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TypeAlias

import grpc  # type: ignore[import-untyped]
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2_grpc,
    status_pb2,
)
from pulumi.runtime.proto import provider_pb2 as pb

from toolchain.plugins.process import engine_channel
from toolchain.plugins.resource import Operation, PartlyCreatedError, ProviderError, Resource, State
from toolchain.plugins.wire import Properties, decode, encode

Context: TypeAlias = grpc.ServicerContext

CONFIG_KEYS_OF_THE_ENGINE = frozenset({"version", "pluginDownloadURL"})


class ProviderServer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one provider.

    Args:
        config_keys: the supported configuration properties; any other is refused.
        resources: creates the resource types from the configuration.
    """

    def __init__(
        self,
        name: str,
        version: str,
        config_keys: Set[str],
        resources: Callable[[Properties], Iterable[Resource]],
        engine_address: str,
    ) -> None:
        self._plugin = f"the registry-only {name} plugin"
        self._version = version
        self._config_keys = config_keys
        self._configured = resources
        self._resources: Mapping[str, Resource] = {}
        self._engine = engine_pb2_grpc.EngineStub(engine_channel(engine_address))
        self._cancelled = threading.Event()

    def register(self, server: grpc.Server) -> None:
        """Add this service to `server`."""
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self, server)

    def stop(self) -> None:
        """Interrupt every operation."""
        self._cancelled.set()

    def Handshake(
        self, request: pb.ProviderHandshakeRequest, context: Context
    ) -> pb.ProviderHandshakeResponse:
        # Neither secrets nor resource references are accepted: see wire.py.
        return pb.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Empty, context: Context) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    def Cancel(self, request: Empty, context: Context) -> Empty:
        self.stop()
        return Empty()

    def CheckConfig(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        takes = ", ".join(sorted(self._config_keys))
        unknown = decode(request.news).keys() - self._config_keys - CONFIG_KEYS_OF_THE_ENGINE
        return _checked(
            request,
            {key: f"{self._plugin} does not know {key!r}; it takes {takes}" for key in unknown},
        )

    def DiffConfig(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        # With another address or token it is still the same provider, so no resource is replaced.
        changed = decode(request.old_inputs) != decode(request.news)
        return pb.DiffResponse(changes=_changes(changed))

    def Configure(self, request: pb.ConfigureRequest, context: Context) -> pb.ConfigureResponse:
        with _reporting(context):
            made = self._configured(decode(request.args))
        self._resources = {resource.kind: resource for resource in made}
        return pb.ConfigureResponse(supportsPreview=True)

    def Check(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        with _reporting(context):
            resource, news = self._resource(request.urn), decode(request.news)
            checked = _checked(request, resource.check(news))
        left_out = resource.recorded_defaults.keys() - news.keys()
        checked.inputs.update({name: resource.recorded_defaults[name] for name in left_out})
        return checked

    def Diff(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        with _reporting(context):
            old = _state(request.id, request.old_inputs, request.olds)
            difference = self._resource(request.urn).diff(old, decode(request.news))
        ignored = set(request.ignoreChanges)
        replaces = difference.replaces - ignored
        changed = (difference.changed | replaces) - ignored
        update, replace = pb.PropertyDiff.UPDATE, pb.PropertyDiff.UPDATE_REPLACE
        return pb.DiffResponse(
            changes=_changes(bool(changed)),
            diffs=sorted(changed),
            replaces=sorted(replaces),
            deleteBeforeReplace=bool(replaces) and difference.delete_before_replace,
            hasDetailedDiff=True,
            detailedDiff={
                name: pb.PropertyDiff(kind=replace if name in replaces else update)
                for name in changed
            },
        )

    def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        with _reporting(context):
            resource, new = self._resource(request.urn), decode(request.properties)
            if request.preview:
                return pb.CreateResponse(properties=encode(resource.planned(new, None)))
            resource_id, outputs = resource.create(new, self._operation(request))
        return pb.CreateResponse(id=resource_id, properties=encode(outputs))

    def Read(self, request: pb.ReadRequest, context: Context) -> pb.ReadResponse:
        with _reporting(context):
            old = _state(request.id, request.inputs, request.properties)
            found = self._resource(request.urn).read(old)
        if found is None:
            return pb.ReadResponse()
        return pb.ReadResponse(
            id=found.id, inputs=encode(found.inputs), properties=encode(found.outputs)
        )

    def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        with _reporting(context):
            resource, new = self._resource(request.urn), decode(request.news)
            old = _state(request.id, request.old_inputs, request.olds)
            if request.preview:
                return pb.UpdateResponse(properties=encode(resource.planned(new, old)))
            outputs = resource.update(old, new, self._operation(request))
        return pb.UpdateResponse(properties=encode(outputs))

    def Delete(self, request: pb.DeleteRequest, context: Context) -> Empty:
        with _reporting(context):
            old = _state(request.id, request.old_inputs, request.properties)
            self._resource(request.urn).delete(old, self._operation(request))
        return Empty()

    def _resource(self, urn: str) -> Resource:
        token = urn.split("::")[2].rpartition("$")[2]
        if token not in self._resources:
            has = ", ".join(sorted(self._resources))
            raise ProviderError(f"{self._plugin} has no {token}; it has {has}")
        return self._resources[token]

    def _operation(
        self, request: pb.CreateRequest | pb.UpdateRequest | pb.DeleteRequest
    ) -> Operation:
        def log(line: str) -> None:
            message = engine_pb2.LogRequest(
                severity=engine_pb2.INFO, message=line, urn=request.urn, ephemeral=True
            )
            self._engine.Log(message)

        name = request.urn.rpartition("::")[2]
        return Operation(name=name, log=log, cancelled=self._cancelled)


def _state(resource_id: str, inputs: Struct, outputs: Struct) -> State:
    return State(id=resource_id, inputs=decode(inputs), outputs=decode(outputs))


def _changes(changed: bool) -> pb.DiffResponse.DiffChanges.ValueType:
    return pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE


def _checked(request: pb.CheckRequest, failures: Mapping[str, str]) -> pb.CheckResponse:
    return pb.CheckResponse(
        inputs=request.news,
        failures=[pb.CheckFailure(property=p, reason=r) for p, r in sorted(failures.items())],
    )


@contextmanager
def _reporting(context: Context) -> Iterator[None]:
    """Turn provider errors into gRPC statuses, so that the user sees a message and not a
    traceback."""
    try:
        yield
    except ProviderError as problem:
        if isinstance(problem, PartlyCreatedError):
            context.set_trailing_metadata(_what_was_created(problem))
        context.abort(grpc.StatusCode.UNKNOWN, str(problem))


def _what_was_created(problem: PartlyCreatedError) -> tuple[tuple[str, bytes]]:
    """Attach the state that Pulumi should record as the details of the gRPC status."""
    detail = AnyMessage()
    detail.Pack(
        pb.ErrorResourceInitFailed(
            id=problem.resource_id, properties=encode(problem.outputs), reasons=[str(problem)]
        )
    )
    code: int = grpc.StatusCode.UNKNOWN.value[0]
    status = status_pb2.Status(code=code, message=str(problem), details=[detail])
    return (("grpc-status-details-bin", status.SerializeToString()),)
