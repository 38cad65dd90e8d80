"""What the tests' NVML library answers (library/nvml.c)."""

from __future__ import annotations

from pathlib import Path

XID = 8  # nvmlEventTypeXidCriticalError
GPU_IS_LOST = 15
DRIVER_NOT_LOADED = 9
IRQ_ISSUE = 11
H100_BYTES = 81559 << 20


class FakeNvml:
    """The files of its folder: the library reads them at each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._values: dict[str, object] = {"driver": "580.95.05", "count": 0}
        self._write()

    def add(self, count: int = 1, **values: object) -> list[str]:
        """Devices with these values; returns their UUIDs."""
        first = int(str(self._values["count"]))
        for index in range(first, first + count):
            known: dict[str, object] = {
                "uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000",
                "name": "NVIDIA H100 80GB HBM3",
                "memory": H100_BYTES,
                "pci": f"0000:{0x10 + index:02x}:00",
                "event_types": XID,
                **values,
            }
            self.set(index, **known)
        self.set_host(count=first + count)
        return [str(self._values[f"{index}.uuid"]) for index in range(first, first + count)]

    def set(self, device: int | str, **values: object) -> None:
        """Of a device, "0", or of a MIG instance, "0.1". None removes what was set."""
        for name, value in values.items():
            self._put(f"{device}.{name}", value)
        self._write()

    def set_host(self, **values: object) -> None:
        for name, value in values.items():
            self._put(name, value)
        self._write()

    def xid(self, device: int, number: int) -> None:
        """Happens once somebody listens."""
        with (self.folder / "events").open("a") as events:
            events.write(f"{device} {XID} {number}\n")

    def _put(self, key: str, value: object) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def _write(self) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in self._values.items())
        partial = self.folder / "table.partial"
        partial.write_text(lines)
        partial.replace(self.folder / "table")
