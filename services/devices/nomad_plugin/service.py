"""The services that Nomad calls, over gRPC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from accelerators.driver import Driver
from google.protobuf import empty_pb2
from grpc_health.v1 import health as grpc_health
from grpc_health.v1 import health_pb2, health_pb2_grpc
from health.watch import Watch

from nomad_plugin import announcement, messages

API_VERSION = "v0.1.0"
PLUGIN_VERSION = "1.0.0"
DEVICE_PLUGIN = 3  # PluginType.DEVICE
HEALTH_SERVICE = "plugin"  # that go-plugin asks for


class DevicePlugin:
    """`follow` starts to follow the accelerators: Nomad also starts plugins only to ask who they
    are, and these touch no driver."""

    def __init__(
        self,
        name: str,
        driver: Driver,
        watch: Watch,
        *,
        follow: Callable[[], None],
        ended: threading.Event,
    ) -> None:
        self._name = name
        self._driver = driver
        self._watch = watch
        self._follow = follow
        self._ended = ended

    def end_streams(self) -> None:
        """Once it has ended."""
        self._watch.wake()

    def info(self, _request: Any, _context: Any) -> Any:
        return messages.PluginInfoResponse(
            type=DEVICE_PLUGIN,
            plugin_api_versions=[API_VERSION],
            plugin_version=PLUGIN_VERSION,
            name=self._name,
        )

    def config_schema(self, _request: Any, _context: Any) -> Any:
        return messages.ConfigSchemaResponse()

    def set_config(self, _request: Any, _context: Any) -> Any:
        return messages.SetConfigResponse()

    def fingerprint(self, _request: Any, context: Any) -> Iterator[Any]:
        """All devices, again with each change. Were the stream to end, Nomad would forget the
        devices until its agent is started again."""
        self._follow()
        context.add_callback(self._watch.wake)
        version = 0

        def over() -> bool:
            return self._ended.is_set() or not context.is_active()

        while (known := self._watch.wait(version, over)) is not None:
            version = known.version
            yield announcement.fingerprint(self._driver.vendor, known)

    def reserve(self, request: Any, context: Any) -> Any:
        known = {each.accelerator.uuid: each.accelerator for each in self._watch.known().standings}
        strangers = [uuid for uuid in request.device_ids if uuid not in known]
        if strangers:
            context.abort(
                grpc.StatusCode.NOT_FOUND, f"this host has no device {', '.join(strangers)}"
            )
        chosen = [known[uuid] for uuid in request.device_ids]
        return announcement.reservation(self._driver.reserve(chosen))

    def stats(self, request: Any, context: Any) -> Iterator[Any]:
        """At the interval that Nomad asks for."""
        over = threading.Event()
        context.add_callback(over.set)
        interval_s = max(1.0, request.collection_interval.ToTimedelta().total_seconds())
        while not (over.is_set() or self._ended.is_set()):
            yield announcement.stats(self._driver.vendor, self._watch.known())
            over.wait(interval_s)


def add_to(server: grpc.Server, plugin: DevicePlugin, shut_down: Callable[[], None]) -> None:
    def shutdown(_request: Any, _context: Any) -> Any:
        shut_down()
        return empty_pb2.Empty()

    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                f"{messages.BASE}.BasePlugin",
                {
                    "PluginInfo": _unary(plugin.info, messages.PluginInfoRequest),
                    "ConfigSchema": _unary(plugin.config_schema, messages.ConfigSchemaRequest),
                    "SetConfig": _unary(plugin.set_config, messages.SetConfigRequest),
                },
            ),
            grpc.method_handlers_generic_handler(
                f"{messages.DEVICE}.DevicePlugin",
                {
                    "Fingerprint": _stream(plugin.fingerprint, messages.FingerprintRequest),
                    "Reserve": _unary(plugin.reserve, messages.ReserveRequest),
                    "Stats": _stream(plugin.stats, messages.StatsRequest),
                },
            ),
            grpc.method_handlers_generic_handler(
                "plugin.GRPCController", {"Shutdown": _unary(shutdown, empty_pb2.Empty)}
            ),
        )
    )
    healthy = grpc_health.HealthServicer()
    healthy.set(HEALTH_SERVICE, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)


def _unary(call: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=request.FromString, response_serializer=_serialize
    )


def _stream(call: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_stream_rpc_method_handler(
        call, request_deserializer=request.FromString, response_serializer=_serialize
    )


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())
