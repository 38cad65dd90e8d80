"""The accelerators of a host as its drivers show them, and what its pool asks of them.

The host needs nothing but its drivers' own programs and a shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from program.document import JsonObject

from delivery.requirement import Requirement

NVIDIA, AMD = "nvidia", "amd"
# Memory that is protected by ECC, but has no chips for it, loses a sixteenth (NVIDIA's GDDR6).
LEAST_SHARE_OF_MEMORY = 0.93
NOT_THERE = {"", "N/A", "[N/A]", "[Not Supported]"}
ON, OFF = "Enabled", "Disabled"

# Each line begins with what it is about.
LOOK_NVIDIA = """
if ! command -v nvidia-smi > /dev/null; then
  echo 'failed nvidia-smi is not installed'
elif ! said=$(nvidia-smi -L 2>&1); then
  echo "failed $said" | head -n 1
else
  fields=name,memory.total,driver_version,ecc.mode.current,persistence_mode,mig.mode.current
  nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits | sed 's/^/device /'
fi
ls {system}/bus/pci/drivers/nvidia-nvswitch 2> /dev/null | grep -c : | sed 's/^/switches /'
echo "fabric-manager $(systemctl is-active nvidia-fabricmanager 2> /dev/null)"
echo "fabric-manager-version $(nv-fabricmanager --version 2> /dev/null | grep -o '[0-9.]*$')"
true
"""
LOOK_AMD = """
nodes={system}/class/kfd/kfd/topology/nodes
[ -d "$nodes" ] || echo 'failed the driver amdgpu is not loaded'
value() {{ awk -v name="$1" '$1 == name {{ print $2 }}' "$2"; }}
for node in "$nodes"/*; do
  [ "$(value simd_count "$node/properties" 2> /dev/null)" -gt 0 ] 2> /dev/null || continue
  card={system}/class/drm/renderD$(value drm_render_minor "$node/properties")/device
  name=$(cat "$card/product_name" 2> /dev/null)
  own='$1 == "heap_type" {{ heap = $2 }}
    $1 == "size_in_bytes" && (heap == 1 || heap == 2) {{ sum += $2 }}
    END {{ printf "%d", sum / 1048576 }}'
  memory=$(cat "$node"/mem_banks/*/properties 2> /dev/null | awk "$own")
  driver=$(cat {system}/module/amdgpu/version 2> /dev/null || uname -r)
  echo "device $name, $memory, $driver, , , "
done
true
"""


@dataclass(frozen=True)
class Device:
    """As its driver shows it; a mode is empty where the device has none."""

    name: str
    memory_mib: int
    driver: str
    ecc: str
    persistence: str
    mig: str


@dataclass(frozen=True)
class Accelerators:
    """A host's accelerators. `failed` is what its driver says if it does not answer."""

    devices: tuple[Device, ...] = ()
    failed: str = ""
    switches: int = 0
    fabric_manager: str = ""  # systemd's word: "active"
    fabric_manager_version: str = ""


@dataclass(frozen=True)
class Wanted:
    """What a pool asks of each of its hosts. `names` are what drivers call such a device."""

    vendor: str
    count: int
    names: tuple[str, ...]
    memory_mib: int
    driver: str  # the oldest one with which the engines work; "" where none is known
    mig: bool = False


class Shell(Protocol):
    def run(self, command: str) -> str: ...


def read_wanted(document: JsonObject) -> Wanted:
    return Wanted(**{**document, "names": tuple(document["names"])})


def look_at(shell: Shell, vendor: str, *, system: str = "/sys") -> Accelerators:
    look = {NVIDIA: LOOK_NVIDIA, AMD: LOOK_AMD}[vendor]
    lines = [line.strip() for line in shell.run(look.format(system=system)).splitlines()]
    about: dict[str, list[str]] = {}
    for line in lines:
        subject, _, said = line.partition(" ")
        about.setdefault(subject, []).append(said)

    def one(subject: str) -> str:
        return next(iter(about.get(subject, ())), "")

    return Accelerators(
        devices=tuple(_device(each) for each in about.get("device", ())),
        failed=one("failed"),
        switches=int(one("switches") or 0),
        fabric_manager=one("fabric-manager"),
        fabric_manager_version=one("fabric-manager-version"),
    )


def accelerator_requirements(found: Accelerators, wanted: Wanted) -> Iterator[Requirement]:
    """Everything that was looked at, as wanted or not."""
    if found.failed or not found.devices:
        said = found.failed or "it shows no device"
        yield Requirement(
            "driver",
            "does not answer",
            f"has no {wanted.vendor} driver that answers: {said}",
            "install the driver, or boot the host again if it was updated",
        )
        return
    yield _count(found.devices, wanted)
    yield _model(found.devices, wanted)
    yield _memory(found.devices, wanted)
    yield _driver(found.devices, wanted)
    if wanted.vendor == NVIDIA:
        yield _ecc(found.devices)
        yield _persistence(found.devices)
        yield _mig(found.devices, wanted)
        yield _fabric_manager(found)


def _device(line: str) -> Device:
    name, memory, driver, *modes = (each.strip() for each in line.split(","))
    ecc, persistence, mig = ("" if each in NOT_THERE else each for each in modes)
    memory_mib = int(memory) if memory.isdigit() else 0
    return Device(name, memory_mib, driver, ecc, persistence, mig)


def _count(devices: Sequence[Device], wanted: Wanted) -> Requirement:
    found = f"{len(devices)}"
    if len(devices) == wanted.count:
        return Requirement("devices", found)
    return Requirement(
        "devices",
        found,
        f"shows {len(devices)} of {wanted.count} devices",
        "look for those that are missing (lspci, dmesg), or correct accelerators_per_node",
    )


def _model(devices: Sequence[Device], wanted: Wanted) -> Requirement:
    found = ", ".join(sorted({device.name for device in devices}))
    others = sorted({device.name for device in devices} - set(wanted.names))
    if not others or not wanted.names:
        return Requirement("model", found)
    return Requirement(
        "model",
        found,
        f"has {', '.join(others)}; its pool has {' or '.join(wanted.names)}",
        "put the host into a pool of its accelerator, or correct the pool's `accelerator`",
    )


def _memory(devices: Sequence[Device], wanted: Wanted) -> Requirement:
    least = min(device.memory_mib for device in devices)
    if least >= LEAST_SHARE_OF_MEMORY * wanted.memory_mib:
        return Requirement("device memory", f"{least} MiB")
    return Requirement(
        "device memory",
        f"{least} MiB",
        f"has a device with {least} MiB of memory; the plan counts on {wanted.memory_mib} MiB",
        "have the device looked at, or put the host into a pool of its accelerator",
    )


def _driver(devices: Sequence[Device], wanted: Wanted) -> Requirement:
    driver = min((device.driver for device in devices), key=_version)
    if not wanted.driver or _version(driver) >= _version(wanted.driver):
        return Requirement("driver", driver)
    return Requirement(
        "driver",
        driver,
        f"has driver {driver}; the engines need {wanted.driver} or newer",
        f"install driver {wanted.driver.split('.')[0]} or newer, then boot the host again",
    )


def _ecc(devices: Sequence[Device]) -> Requirement:
    off = sum(device.ecc == OFF for device in devices)
    if not off:
        return Requirement("ECC", "on" if any(device.ecc for device in devices) else "none")
    return Requirement(
        "ECC",
        f"off on {off}",
        f"has ECC off on {off} of {len(devices)} devices: errors of the memory go unnoticed",
        "nvidia-smi -e 1, then boot the host again",
    )


def _persistence(devices: Sequence[Device]) -> Requirement:
    off = sum(device.persistence == OFF for device in devices)
    if not off:
        return Requirement("persistence", "on")
    return Requirement(
        "persistence",
        f"off on {off}",
        f"has persistence mode off on {off} of {len(devices)} devices: the driver forgets them"
        " between tasks",
        "systemctl enable --now nvidia-persistenced",
    )


def _mig(devices: Sequence[Device], wanted: Wanted) -> Requirement:
    on = sum(device.mig == ON for device in devices)
    if on == (len(devices) if wanted.mig else 0):
        return Requirement("MIG", "on" if on else "off")
    state = "on" if on else "off"
    wish = "instances" if wanted.mig else "whole devices"
    return Requirement(
        "MIG",
        f"{state} on {on or len(devices)}",
        f"has MIG {state} on {on or len(devices)} of {len(devices)} devices; its pool has {wish}",
        f"nvidia-smi -mig {int(wanted.mig)}, then reset the devices",
    )


def _fabric_manager(found: Accelerators) -> Requirement:
    """On machines with NVSwitches, devices cannot be used without it; it must be the driver's
    version."""
    if not found.switches:
        return Requirement("fabric manager", "not needed: there is no NVSwitch")
    driver, version = found.devices[0].driver, found.fabric_manager_version
    if found.fabric_manager != "active":
        return Requirement(
            "fabric manager",
            found.fabric_manager or "missing",
            "has NVSwitches, and nvidia-fabricmanager does not run",
            "systemctl enable --now nvidia-fabricmanager, in the driver's version",
        )
    if version != driver:
        return Requirement(
            "fabric manager",
            version or "of an unknown version",
            f"has fabric manager {version or 'of an unknown version'} with driver {driver}",
            f"install nvidia-fabricmanager in version {driver}",
        )
    return Requirement("fabric manager", f"{version}, active")


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(p.isdigit() for p in parts) else (0,)
