"""A /sys as AMD's drivers fill it."""

from __future__ import annotations

from pathlib import Path

MI300X_BYTES = 192 << 30
PROCESSOR = {"cpu_cores_count": 96, "simd_count": 0, "mem_banks_count": 1}


class FakeKfd:
    """A host with a processor as node 0, like real ones, and devices after it."""

    def __init__(self, system: Path) -> None:
        self.system = system
        self._nodes = system / "class/kfd/kfd/topology/nodes"
        self._write(self._nodes / "0/properties", _lines(PROCESSOR))

    def add(self, count: int = 1, *, product: str = "AMD Instinct MI300X OAM") -> list[str]:
        """Returns their UUIDs."""
        first = len(list(self._nodes.iterdir()))
        return [self._add(number, product) for number in range(first, first + count)]

    def set(self, device: int, **files: object) -> None:
        """Writes files of the device, the first of which is 0; `ras__umc` stands for "ras/umc"."""
        folder = self._device(device + 1)
        for name, content in files.items():
            self._write(folder / name.replace("__", "/"), f"{content}\n")

    def number(self, device: int, unique: int) -> None:
        """The number by which the driver tells it from others."""
        file = self._nodes / str(device + 1) / "properties"
        lines = [each for each in file.read_text().splitlines() if "unique_id" not in each]
        file.write_text("\n".join([*lines, f"unique_id {unique}"]) + "\n")

    def remove_driver(self) -> None:
        self._nodes.rename(self._nodes.with_name("gone"))

    def _add(self, number: int, product: str) -> str:
        unique = 0xA000_0000_0000_0000 + number
        folder = self._nodes / str(number)
        properties = {
            "cpu_cores_count": 0,
            "simd_count": 1216,
            "gfx_target_version": 90402,
            "location_id": (0x20 + number) << 8,
            "domain": 0,
            "drm_render_minor": 128 + number,
            "unique_id": unique,
        }
        self._write(folder / "properties", _lines(properties))
        bank = {"heap_type": 1, "size_in_bytes": MI300X_BYTES}
        self._write(folder / "mem_banks/0/properties", _lines(bank))
        self._write(self._device(number) / "product_name", f"{product}\n")
        self._write(self._device(number) / "ras/umc_err_count", "ue: 0\nce: 0\n")
        return f"GPU-{unique:016x}"

    def _device(self, number: int) -> Path:
        return self.system / f"class/drm/renderD{128 + number}/device"

    def _write(self, file: Path, content: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def _lines(values: dict[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())
