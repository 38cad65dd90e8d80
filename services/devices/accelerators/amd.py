"""AMD's accelerators, by what the kernel's drivers show in sysfs and write to the kernel's log.

The compute driver lists its nodes below /sys/class/kfd (Linux, drivers/gpu/drm/amd/amdkfd/
kfd_topology.c); processors are among them. The display driver has the same device's files below
/sys/class/drm.
"""

from __future__ import annotations

import platform
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerators import kinds
from accelerators.driver import (
    Accelerator,
    DriverGoneError,
    Figures,
    Observation,
    Reservation,
    Signal,
    State,
)
from accelerators.kernel_log import KernelLog, Line

VENDOR = "amd"
MEBIBYTE = 1 << 20
COMPUTE_DRIVER = "/dev/kfd"
# Heaps of a node's memory banks that are the device's own: visible to the processor, and not.
OWN_HEAPS = (1, 2)
COUNTS = re.compile(r"(ue|ce):\s*(\d+)")
UNCORRECTABLE, CORRECTABLE = "ue", "ce"
MEMORY = "umc"
NO_NUMBER = f"GPU-{0:016x}"
# What the kernel's driver writes of one device -> what it means.
MESSAGES = (
    (re.compile(r"GPU reset\(\d+\) succeeded"), Signal(kinds.RESET)),
    (re.compile(r"GPU reset(\(\d+\) failed| end with ret = -)"), Signal(kinds.RESET_FAILED)),
    (re.compile(r"(?<!\b0 )uncorrectable hardware error", re.I), Signal(kinds.AMD_UNCORRECTABLE)),
    (re.compile(r"bad pages?\b.*\bthreshold", re.I), Signal(kinds.BAD_PAGES)),
    (re.compile(r"ring \S+ timeout"), Signal(kinds.RING_TIMEOUT)),
)
DEVICE = re.compile(r"amdgpu ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (.*)")


@dataclass(frozen=True)
class _Node:
    """A device, and its folder below /sys/class/drm."""

    accelerator: Accelerator
    folder: Path


class Amd:
    """`system` is /sys. Without a log, resets are not known."""

    vendor = VENDOR

    def __init__(self, log: KernelLog | None = None, *, system: Path = Path("/sys")) -> None:
        self._log = log
        self._system = system
        self._uuids: dict[str, list[str]] = {}  # by PCI address: a device may be partitioned

    def look(self) -> State:
        nodes = [node for folder in self._node_folders() for node in self._read_node(folder)]
        self._uuids = {}
        for node in nodes:
            self._uuids.setdefault(node.accelerator.pci_address, []).append(node.accelerator.uuid)
        return State(
            accelerators=tuple(node.accelerator for node in nodes),
            observations=(
                *(each for node in nodes for each in _observations(node)),
                *_without_number_of_its_own(nodes),
            ),
            figures={node.accelerator.uuid: _figures(node) for node in nodes},
        )

    def events(self, timeout_s: float) -> list[Observation]:
        if self._log is None:
            time.sleep(timeout_s)
            return []
        return [each for line in self._log.lines(timeout_s) for each in self._of_line(line)]

    def reserve(self, accelerators: Sequence[Accelerator]) -> Reservation:
        """ROCm reads the variable; a container also needs the devices' files."""
        chosen = ",".join(each.uuid for each in accelerators)
        files = [file for each in accelerators for file in each.files]
        return Reservation(
            variables={"ROCR_VISIBLE_DEVICES": chosen}, files=(COMPUTE_DRIVER, *files)
        )

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _node_folders(self) -> list[Path]:
        topology = self._system / "class/kfd/kfd/topology/nodes"
        if not topology.is_dir():
            raise DriverGoneError(f"the driver amdgpu is not loaded: there is no {topology}")
        return sorted(topology.iterdir(), key=lambda folder: int(folder.name))

    def _read_node(self, folder: Path) -> Iterator[_Node]:
        """Nothing for a processor."""
        properties = _properties(folder / "properties")
        if not properties.get("simd_count"):
            return
        minor = properties.get("drm_render_minor", 0)
        device = self._system / f"class/drm/renderD{minor}/device"
        yield _Node(
            Accelerator(
                # As ROCm's runtime writes it, in the form that its variables take.
                uuid=f"GPU-{properties.get('unique_id', 0):016x}",
                model=_text(device / "product_name") or _gfx(properties),
                memory_bytes=_own_memory_bytes(folder),
                driver=_text(self._system / "module/amdgpu/version") or platform.release(),
                pci_address=_pci_address(properties),
                files=(f"/dev/dri/renderD{minor}",),
            ),
            device,
        )

    def _of_line(self, line: Line) -> Iterator[Observation]:
        match = DEVICE.search(line.text)
        for uuid in self._uuids.get(match[1], ()) if match else ():
            for pattern, signal in MESSAGES:
                if match and pattern.search(match[2]):
                    yield Observation(uuid, signal, match[2])


def _without_number_of_its_own(nodes: Sequence[_Node]) -> Iterator[Observation]:
    """Tasks could not be given such a device: older kernels know no number, and give all partitions
    of a device the same."""
    counts = Counter(node.accelerator.uuid for node in nodes)
    for uuid, count in counts.items():
        if count > 1 or uuid == NO_NUMBER:
            detail = f"{count} devices are called {uuid}"
            yield Observation(uuid, Signal(kinds.NO_NUMBER), detail)


def _observations(node: _Node) -> Iterator[Observation]:
    uuid = node.accelerator.uuid
    for block, counts in _error_counts(node).items():
        for key, kind in (
            (UNCORRECTABLE, kinds.AMD_UNCORRECTABLE),
            (CORRECTABLE, kinds.CORRECTABLE_ECC),
        ):
            if counts.get(key):
                detail = f"{counts[key]} of {block} since the last reset"
                yield Observation(uuid, Signal(kind), detail)
    width, full = (_number(node.folder / f"{which}_link_width") for which in ("current", "max"))
    if width is not None and full is not None and width < full:
        yield Observation(uuid, Signal(kinds.PCIE_NARROW), f"{width} of {full} lanes")
    for sensor, celsius in _too_hot(node):
        yield Observation(uuid, Signal(kinds.HARDWARE_SLOWDOWN), f"{sensor} has {celsius} °C")


def _too_hot(node: _Node) -> Iterator[tuple[str, int]]:
    """Sensors at or above their critical temperature; the kernel counts thousandths of degrees."""
    for file in node.folder.glob("hwmon/hwmon*/temp*_input"):
        name = file.name.removesuffix("_input")
        now, critical = _number(file), _number(file.with_name(f"{name}_crit"))
        if now is not None and critical is not None and now >= critical:
            yield _text(file.with_name(f"{name}_label")) or name, now // 1000


def _figures(node: _Node) -> Figures:
    """DCGM exporter's names, so that a fleet of both vendors has one set of dashboards."""
    total, used = (_number(node.folder / f"mem_info_vram_{what}") for what in ("total", "used"))
    busy = _number(node.folder / "gpu_busy_percent")
    memory = _error_counts(node).get(MEMORY)
    found: dict[str, float] = {}
    if total is not None and used is not None:
        found["DCGM_FI_DEV_FB_USED"] = used / MEBIBYTE
        found["DCGM_FI_DEV_FB_FREE"] = (total - used) / MEBIBYTE
    if busy is not None:
        found["DCGM_FI_DEV_GPU_UTIL"] = busy
    if memory:
        found["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"] = memory[CORRECTABLE]
        found["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] = memory[UNCORRECTABLE]
    return found


def _error_counts(node: _Node) -> Mapping[str, Mapping[str, int]]:
    """By block of the hardware ("umc" is its memory), since the last reset."""
    files = sorted((node.folder / "ras").glob("*_err_count"))
    return {
        file.name.removesuffix("_err_count"): {
            key: int(count) for key, count in COUNTS.findall(_text(file))
        }
        for file in files
    }


def _own_memory_bytes(folder: Path) -> int:
    banks = [_properties(bank / "properties") for bank in (folder / "mem_banks").glob("*")]
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in OWN_HEAPS)


def _properties(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.split() for line in _text(file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _pci_address(properties: Mapping[str, int]) -> str:
    """`location_id` is the bus, and in the lower byte the device (5 bits) and the function."""
    location = properties.get("location_id", 0)
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
    return f"{properties.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"


def _gfx(properties: Mapping[str, int]) -> str:
    """The name of the instruction set, "gfx942": 90402 is version 9, 4, 2."""
    version = properties.get("gfx_target_version", 0)
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    """Empty if there is no such file, or the driver has no answer."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
