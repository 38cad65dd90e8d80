"""Rows of bench/accelerator.py: the device plugin as Nomad starts it, and the checks of a host,
beside what the driver's own program shows."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
from nomad_plugin import messages
from plugin_process import Plugin

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
    answer = next(
        plugin.stream("Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse)
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
        statistics = next(plugin.stream("Stats", messages.StatsRequest(), messages.StatsResponse))
        row("devices with statistics", sum(len(g.instance_stats) for g in statistics.groups))
        pages = int(Path(f"/proc/{plugin.process.pid}/statm").read_text().split()[1])
        row("memory of the plugin, MiB", pages * os.sysconf("SC_PAGE_SIZE") // MIB)
    health_source()


if __name__ == "__main__":
    main()
