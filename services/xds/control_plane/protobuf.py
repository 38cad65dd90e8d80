# mypy: disable-error-code="import-untyped"
"""The only module that uses xds-protos, so that the package can be replaced.

xds-protos has no type stubs, so its values are `Any` here, and this module returns bytes or plain
values. Resources are written in Envoy's JSON form and converted to protobuf here; endpoint
assignments, the only large and frequent ones, are built directly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import health_check_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import scoped_route_pb2

# Imported for the descriptors that typed_config fields name.
from envoy.extensions.access_loggers.stats.v3 import stats_pb2  # noqa: F401
from envoy.extensions.access_loggers.stream.v3 import stream_pb2  # noqa: F401
from envoy.extensions.filters.http.grpc_field_extraction.v3 import config_pb2  # noqa: F401
from envoy.extensions.filters.http.health_check.v3 import (
    health_check_pb2 as _health_filter_pb2,  # noqa: F401
)
from envoy.extensions.filters.http.lua.v3 import lua_pb2  # noqa: F401
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,  # noqa: F401
)
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import (
    header_mutation_pb2,  # noqa: F401
)
from envoy.extensions.load_balancing_policies.least_request.v3 import (
    least_request_pb2,  # noqa: F401
)
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2  # noqa: F401
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2  # noqa: F401
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.runtime.v3 import rtds_pb2
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message import Message

from .routing import Endpoint

DeltaRequest: Any = discovery_pb2.DeltaDiscoveryRequest
DeltaResponse: Any = discovery_pb2.DeltaDiscoveryResponse
DiscoveryStub: Any = ads_pb2_grpc.AggregatedDiscoveryServiceStub

_ADS = "envoy.service.discovery.v3.AggregatedDiscoveryService"


def discovery_handler(delta: Callable[..., Any]) -> grpc.GenericRpcHandler:
    """The aggregated discovery service, with only its incremental method."""
    method = grpc.stream_stream_rpc_method_handler(
        delta,
        request_deserializer=DeltaRequest.FromString,
        response_serializer=DeltaResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(_ADS, {"DeltaAggregatedResources": method})


def cluster(document: Mapping[str, Any]) -> bytes:
    return _encode(document, cluster_pb2.Cluster())


def listener(document: Mapping[str, Any]) -> bytes:
    return _encode(document, listener_pb2.Listener())


def scope(document: Mapping[str, Any]) -> bytes:
    return _encode(document, scoped_route_pb2.ScopedRouteConfiguration())


def runtime(name: str, values: Mapping[str, int]) -> bytes:
    """A layer of numbers."""
    layer: Any = rtds_pb2.Runtime(name=name)
    for key, value in values.items():
        layer.layer.fields[key].number_value = value
    return bytes(layer.SerializeToString(deterministic=True))


def cluster_load_assignment(
    name: str, endpoints: Iterable[Endpoint], check_ports: Mapping[Endpoint, int]
) -> bytes:
    """Endpoints of one cluster in one locality, in the order given. Envoy's health checks ask those
    in `check_ports`, at that port."""
    status = health_check_pb2.HealthStatus
    assignment = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
    locality = assignment.endpoints.add()
    members = tuple(endpoints)
    weights = {endpoint.weight for endpoint in members}
    for endpoint in members:
        member: Any = endpoint_components_pb2.LbEndpoint()
        socket_address = member.endpoint.address.socket_address
        socket_address.address = endpoint.address
        socket_address.port_value = endpoint.port
        member.health_status = status.HEALTHY if endpoint.in_use else status.UNHEALTHY
        check = member.endpoint.health_check_config
        if endpoint in check_ports:
            check.port_value = check_ports[endpoint]
        else:
            check.disable_active_health_check = True
        if len(weights) > 1:  # else all have Envoy's default
            member.load_balancing_weight.value = endpoint.weight
        if endpoint.replica:
            of_balancer = member.metadata.filter_metadata["envoy.lb"]
            of_balancer.fields["hash_key"].string_value = endpoint.replica
        locality.lb_endpoints.append(member)
    return bytes(assignment.SerializeToString(deterministic=True))


def delta_response(
    *,
    type_url: str,
    nonce: str,
    resources: Iterable[tuple[str, str, bytes]],
    removed: Iterable[str],
) -> Any:
    """A DeltaDiscoveryResponse; each resource is (name, version, serialized message)."""
    response = DeltaResponse(type_url=type_url, nonce=nonce, removed_resources=removed)
    for name, version, body in resources:
        resource = response.resources.add(name=name, version=version)
        resource.resource.type_url = type_url
        resource.resource.value = body
    return response


def service_descriptor_set(
    *,
    package: str,
    service: str,
    methods: Mapping[str, tuple[str, str]],
    streaming: Collection[str],
) -> bytes:
    """A FileDescriptorSet of one service whose requests have one string field, number 1.

    `methods` maps a method to (request message, field name); responses are empty messages.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    file.message_type.add(name="Response")
    field_type = descriptor_pb2.FieldDescriptorProto
    for message, field in sorted(set(methods.values())):
        file.message_type.add(name=message).field.add(
            name=field, number=1, type=field_type.TYPE_STRING, label=field_type.LABEL_OPTIONAL
        )
    methods_of_service = file.service.add(name=service).method
    for method, (message, _) in sorted(methods.items()):
        methods_of_service.add(
            name=method,
            input_type=f".{package}.{message}",
            output_type=f".{package}.Response",
            client_streaming=method in streaming,
            server_streaming=method in streaming,
        )
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(deterministic=True)


def _encode(document: Mapping[str, Any], message: Message) -> bytes:
    """Deterministic bytes, so that their hash can be a version. Raises ParseError."""
    json_format.ParseDict(dict(document), message)
    return message.SerializeToString(deterministic=True)
