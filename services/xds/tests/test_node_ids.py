# mypy: disable-error-code="import-untyped"
"""Over TLS a stream is only for the node id that the client's certificate gives."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.protobuf import DeltaRequest, DiscoveryStub
from control_plane.server import DiscoveryService, grpc_server
from control_plane.settings import Certificate
from control_plane.snapshot import ResourceType
from control_plane.tls import grpc_credentials
from support.bootstrap import certificates
from support.scripted_client import snapshot
from support.waiting import ADDRESS

SERVER_NAME = "xds.test.slipway"
DENIED, UNAVAILABLE = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE


class Server:
    """The control plane's server over TLS, with a cluster to serve, and its authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = certificates()
        for name, content in self.authority.issue("xds", [SERVER_NAME]).items():
            (folder / name).write_text(content, encoding="utf-8")
        hub = Hub()
        hub.publish(snapshot(clusters={"a-cluster": "its content"}))
        self.grpc = grpc_server(DiscoveryService(hub, Metrics()))
        credentials = grpc_credentials(Certificate(folder))
        self.port = self.grpc.add_secure_port(f"{ADDRESS}:0", credentials)

    async def answer(self, node_id: str, shown: dict[str, str] | None) -> Any:
        """The first response on a stream for a node id, or the code with which it ends."""
        key = (shown["key.pem"].encode(), shown["cert.pem"].encode()) if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(self.authority.pem.encode(), *key)
        options = [("grpc.ssl_target_name_override", SERVER_NAME)]
        target = f"{ADDRESS}:{self.port}"
        async with grpc.aio.secure_channel(target, credentials, options) as channel:
            stream = DiscoveryStub(channel).DeltaAggregatedResources()
            request = DeltaRequest(type_url=ResourceType.CLUSTER.value)
            request.node.id = node_id
            request.resource_names_subscribe.append("*")
            try:
                await stream.write(request)
                return await stream.read()
            except grpc.aio.AioRpcError as error:
                return error.code()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    await made.grpc.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(made.grpc.stop, 0)
        yield made


async def test_an_envoy_gets_its_own_configuration(server: Server) -> None:
    shown = server.authority.issue("gateway-10.0.0.1")

    response = await server.answer("gateway-10.0.0.1", shown)

    assert [resource.name for resource in response.resources] == ["a-cluster"]


@pytest.mark.parametrize(
    ("common_name", "node_id"),
    [
        ("gateway-10.0.0.1", "gateway-10.0.0.2"),
        ("gateway-10.0.0.1", ""),
        ("job-prometheus", "job-prometheus"),
        ("operator", "gateway-10.0.0.1"),
    ],
)
async def test_a_node_id_that_the_certificate_does_not_give_is_refused(
    server: Server, common_name: str, node_id: str
) -> None:
    assert await server.answer(node_id, server.authority.issue(common_name)) == DENIED


async def test_nobody_gets_in_without_a_certificate_of_the_authority(server: Server) -> None:
    stranger = certificates().issue("gateway-10.0.0.1")
    of_sibling = server.authority.sibling().issue("gateway-10.0.0.1")

    for shown in (None, stranger, of_sibling):
        assert await server.answer("gateway-10.0.0.1", shown) == UNAVAILABLE
