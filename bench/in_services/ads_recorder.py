"""Passes delta ADS on between Envoys and a control plane, and prints what every response has, and
when which one was acknowledged.

    python ads_recorder.py LISTEN TARGET          both ADDRESS:PORT

For bench/gateway/changes.py, in the environment of services/xds. It knows the protocol only, so any
revision of the control plane can be behind it, whatever resources that serves.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from envoy.service.discovery.v3 import discovery_pb2

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
METHOD = "DeltaAggregatedResources"
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
# As the control plane: Envoy sends more pings than gRPC allows by default.
OPTIONS = (*UNLIMITED, ("grpc.http2.max_ping_strikes", 0), ("grpc.so_reuseport", 0))


async def main(listen: str, target: str) -> None:
    async with grpc.aio.insecure_channel(target, options=UNLIMITED) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}")

        async def passed_on(requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            async for response in call(acknowledgements_noted(requests)):
                print(json.dumps(described(response)), flush=True)
                yield response

        server = grpc.aio.server(options=OPTIONS)
        handlers = {METHOD: grpc.stream_stream_rpc_method_handler(passed_on)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        server.add_insecure_port(listen)
        await server.start()
        await server.wait_for_termination()


async def acknowledgements_noted(requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for request in requests:
        message = discovery_pb2.DeltaDiscoveryRequest.FromString(request)
        if message.response_nonce and not message.HasField("error_detail"):
            print(json.dumps({"acknowledged_s": time.monotonic()}), flush=True)
        yield request


def described(response: bytes) -> dict[str, Any]:
    message = discovery_pb2.DeltaDiscoveryResponse.FromString(response)
    return {
        "type": message.type_url.rpartition(".")[2],
        "resources": len(message.resources),
        "removed": len(message.removed_resources),
        "bytes": len(response),
    }


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
