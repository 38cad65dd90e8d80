"""Rows of bench/accelerator.py: the device plugin as Nomad starts it, and the checks of a host,
beside what the driver's own program shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pynvml
from nomad_plugin import messages

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "services/devices/device_plugin.py"
COOKIE = {
    "NOMAD_PLUGIN_MAGIC_COOKIE": "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
}
ANSWERS_S = 60
MIB = 1 << 20
EVENTS = {
    "XIDs": pynvml.nvmlEventTypeXidCriticalError,
    "single-bit ECC": pynvml.nvmlEventTypeSingleBitEccError,
    "double-bit ECC": pynvml.nvmlEventTypeDoubleBitEccError,
}


def row(what: str, found: object, expected: object = None) -> None:
    """`expected` is what the driver's own program shows, where it shows it."""
    asked = "yes" if found == expected else f"no: {expected}"
    verdict = "" if expected is None else asked
    print(json.dumps({"what": what, "found": str(found), "verdict": verdict}))


class Plugin:
    def __init__(self, record: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PLUGIN, "--vendor", "nvidia", "--record", record],
            env={**os.environ, **COOKIE},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        socket = self.process.stdout.readline().split("|")[3]
        self._channel = grpc.insecure_channel(f"unix:{socket}")

    def first(self, method: str, request: Any, response: Any) -> Any:
        """The first message of a stream."""
        stream: Any = self._channel.unary_stream(
            f"/{messages.DEVICE}.DevicePlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return next(iter(stream(request, timeout=ANSWERS_S)))

    def reserve(self, *uuids: str) -> Any:
        call: Any = self._channel.unary_unary(
            f"/{messages.DEVICE}.DevicePlugin/Reserve",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.ReserveResponse.FromString,
        )
        request = messages.ReserveRequest(device_ids=uuids)
        return call(request, timeout=ANSWERS_S).container_res

    def close(self) -> None:
        self._channel.close()
        self.process.kill()
        self.process.communicate()


@contextmanager
def started_plugin() -> Iterator[Plugin]:
    with tempfile.TemporaryDirectory() as folder:
        plugin = Plugin(Path(folder) / "faults.json")
        try:
            yield plugin
        finally:
            plugin.close()


def driver_shows(field: str) -> list[str]:
    """By nvidia-smi, one line for each device."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in output.splitlines()]


def announced(plugin: Plugin) -> list[str]:
    """Compares the announcement; returns the UUIDs."""
    answer = plugin.first(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    devices = [device for group in answer.device_group for device in group.devices]
    uuids = sorted(device.ID for device in devices)
    row("devices announced", uuids, sorted(driver_shows("uuid")))
    models = sorted({group.device_name for group in answer.device_group})
    row("models", models, sorted(set(driver_shows("name"))))
    for group in answer.device_group:
        memory = group.attributes["memory"].int_val
        shown = min(int(each) for each in driver_shows("memory.total"))
        row(f"memory of {group.device_name}, MiB", memory, shown)
        row(
            "driver",
            group.attributes["driver_version"].string_val,
            driver_shows("driver_version")[0],
        )
    for device in devices:
        row(f"health of {device.ID}", device.health_description or "healthy")
    return uuids


def health_source() -> None:
    """What the driver lets the plugin learn of faults."""
    pynvml.nvmlInit()
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        supported = pynvml.nvmlDeviceGetSupportedEventTypes(handle)
        names = [name for name, bit in EVENTS.items() if supported & bit]
        row(f"events of device {index}", ", ".join(names) or "none")
    pynvml.nvmlShutdown()
    row("the kernel's log can be read", os.access("/dev/kmsg", os.R_OK))


def main() -> None:
    with started_plugin() as plugin:
        uuids = announced(plugin)
        for uuid in uuids:
            variables = dict(plugin.reserve(uuid).envs)
            row(f"a task with {uuid} sees", variables["NVIDIA_VISIBLE_DEVICES"], uuid)
        statistics = plugin.first("Stats", messages.StatsRequest(), messages.StatsResponse)
        row("devices with statistics", sum(len(g.instance_stats) for g in statistics.groups))
        pages = int(Path(f"/proc/{plugin.process.pid}/statm").read_text().split()[1])
        row("memory of the plugin, MiB", pages * os.sysconf("SC_PAGE_SIZE") // MIB)
    health_source()


if __name__ == "__main__":
    main()
