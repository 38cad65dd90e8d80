"""The device plugin as a process, called as Nomad calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
from nomad_plugin import messages

PLUGIN = Path(__file__).parents[1] / "device_plugin.py"
COOKIE = {
    "NOMAD_PLUGIN_MAGIC_COOKIE": "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
}
HANGS_S = 60


class Plugin:
    """A plugin that was started, with these environment variables, and a connection to it."""

    def __init__(self, record: Path, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PLUGIN, "--vendor", "nvidia", "--record", record],
            env={**os.environ, **COOKIE, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.handshake = self.process.stdout.readline().strip()
        self.socket = Path(self.handshake.split("|")[3])
        self._channel = grpc.insecure_channel(f"unix:{self.socket}")

    def call(self, service: str, method: str, request: Any, response: Any) -> Any:
        call: Any = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return call(request, timeout=HANGS_S)

    def stream(self, method: str, request: Any, response: Any) -> Any:
        call: Any = self._channel.unary_stream(
            f"/{messages.DEVICE}.DevicePlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return call(request, timeout=HANGS_S)

    def reserve(self, *uuids: str) -> Any:
        request = messages.ReserveRequest(device_ids=uuids)
        service = f"{messages.DEVICE}.DevicePlugin"
        return self.call(service, "Reserve", request, messages.ReserveResponse).container_res

    def close(self) -> None:
        self._channel.close()
        self.process.kill()
        self.process.communicate()
