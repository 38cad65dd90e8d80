"""Whether a host's accelerators are as its pool wants them, from what its drivers show."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from delivery.accelerators import (
    Accelerators,
    Device,
    Wanted,
    accelerator_requirements,
    look_at,
)

H100 = Device("NVIDIA H100 80GB HBM3", 81559, "580.95.05", "Enabled", "Enabled", "Disabled")
FIT = Accelerators(
    devices=(H100,) * 4,
    switches=4,
    fabric_manager="active",
    fabric_manager_version="580.95.05",
)
WANTED = Wanted(
    vendor="nvidia",
    count=4,
    names=("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"),
    memory_mib=81920,
    driver="580.65.06",
)


def wrong(found: Accelerators, wanted: Wanted = WANTED) -> dict[str, str]:
    """What is wrong, by name; each comes with a fix."""
    checked = [each for each in accelerator_requirements(found, wanted) if each.wrong]
    assert all(each.fix for each in checked)
    return {each.name: each.wrong for each in checked}


def each_device(**changes: Any) -> Accelerators:
    device = dataclasses.replace(H100, **changes)
    return dataclasses.replace(FIT, devices=(device,) * 4)


def one_device(**changes: Any) -> Accelerators:
    device = dataclasses.replace(H100, **changes)
    return dataclasses.replace(FIT, devices=(*FIT.devices[:3], device))


def test_a_fit_host_meets_everything() -> None:
    assert wrong(FIT) == {}
    assert wrong(dataclasses.replace(FIT, switches=0, fabric_manager="")) == {}
    cards_without_ecc = each_device(ecc="", mig="")
    assert wrong(cards_without_ecc) == {}


UNFIT: dict[str, tuple[Accelerators, str, str]] = {
    "driver 560": (
        dataclasses.replace(each_device(driver="560.35.03"), fabric_manager_version="560.35.03"),
        "driver",
        "driver 560.35.03; the engines need 580.65.06",
    ),
    "driver 580 before its first release": (
        dataclasses.replace(each_device(driver="580.9.1"), fabric_manager_version="580.9.1"),
        "driver",
        "need 580.65.06",
    ),
    "3 of 4 devices": (
        dataclasses.replace(FIT, devices=FIT.devices[:3]),
        "devices",
        "shows 3 of 4 devices",
    ),
    "more devices than planned": (
        dataclasses.replace(FIT, devices=FIT.devices * 2),
        "devices",
        "shows 8 of 4 devices",
    ),
    "another model": (each_device(name="NVIDIA L40S"), "model", "has NVIDIA L40S; its pool has"),
    "one of another model": (one_device(name="NVIDIA H200"), "model", "has NVIDIA H200"),
    "a device with less memory": (one_device(memory_mib=40000), "device memory", "40000 MiB"),
    "MIG on": (one_device(mig="Enabled"), "MIG", "MIG on on 1 of 4 devices"),
    "ECC off": (one_device(ecc="Disabled"), "ECC", "ECC off on 1 of 4 devices"),
    "no persistence": (each_device(persistence="Disabled"), "persistence", "off on 4 of 4"),
    "no fabric manager": (
        dataclasses.replace(FIT, fabric_manager=""),
        "fabric manager",
        "nvidia-fabricmanager does not run",
    ),
    "a fabric manager that has failed": (
        dataclasses.replace(FIT, fabric_manager="failed"),
        "fabric manager",
        "nvidia-fabricmanager does not run",
    ),
    "a fabric manager of another version": (
        dataclasses.replace(FIT, fabric_manager_version="575.51.03"),
        "fabric manager",
        "fabric manager 575.51.03 with driver 580.95.05",
    ),
    "a fabric manager of an unknown version": (
        dataclasses.replace(FIT, fabric_manager_version=""),
        "fabric manager",
        "of an unknown version",
    ),
    "no driver": (
        Accelerators(failed="nvidia-smi is not installed"),
        "driver",
        "nvidia-smi is not installed",
    ),
    "a driver that was updated without a reboot": (
        Accelerators(failed="Failed to initialize NVML: Driver/library version mismatch"),
        "driver",
        "version mismatch",
    ),
    "a driver without devices": (Accelerators(), "driver", "it shows no device"),
}


@pytest.mark.parametrize(("found", "name", "says"), UNFIT.values(), ids=UNFIT.keys())
def test_an_unfit_host_is_told_what_is_wrong(found: Accelerators, name: str, says: str) -> None:
    problems = wrong(found)
    assert list(problems) == [name]
    assert says in problems[name]


def test_whole_devices_where_instances_are_wanted_are_told() -> None:
    wanted = dataclasses.replace(WANTED, mig=True)
    assert "MIG off on 4 of 4 devices; its pool has instances" in wrong(FIT, wanted)["MIG"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    device = dataclasses.replace(
        H100, name="Tesla T4", memory_mib=15360, driver="535.1", ecc="Disabled", mig="Enabled"
    )
    found = Accelerators(devices=(device,), switches=4)
    assert set(wrong(found)) == {
        "devices", "model", "device memory", "driver", "ECC", "MIG", "fabric manager",
    }  # fmt: skip


def test_an_amd_host_is_asked_for_number_model_and_memory() -> None:
    wanted = Wanted("amd", 2, ("AMD Instinct MI300X OAM",), 196608, "")
    device = Device("AMD Instinct MI300X OAM", 196592, "6.10.5", "", "", "")
    assert wrong(Accelerators(devices=(device,) * 2), wanted) == {}
    assert set(wrong(Accelerators(devices=(device,)), wanted)) == {"devices"}


class Local:
    """A shell on this machine, with the test's programs first on PATH."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs

    def write(self, name: str, script: str) -> None:
        file = self._programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def run(self, command: str) -> str:
        path = f"{self._programs}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout


@pytest.fixture
def shell(tmp_path: Path) -> Local:
    (tmp_path / "bin").mkdir()
    return Local(tmp_path / "bin")


LINE = "NVIDIA H100 80GB HBM3, 81559, 580.95.05, Enabled, Enabled, [N/A]"


def test_the_drivers_own_programs_are_asked(shell: Local, tmp_path: Path) -> None:
    shell.write("nvidia-smi", f'[ "$1" = -L ] && exit 0; echo "{LINE}"; echo "{LINE}"')
    shell.write("systemctl", "echo active")
    shell.write("nv-fabricmanager", 'echo "Fabric Manager version is : 580.95.05"')
    for number in (1, 2):
        (tmp_path / f"sys/bus/pci/drivers/nvidia-nvswitch/0000:0{number}:00.0").mkdir(parents=True)
    found = look_at(shell, "nvidia", system=str(tmp_path / "sys"))
    device = dataclasses.replace(H100, mig="")
    assert found == Accelerators(
        devices=(device, device),
        switches=2,
        fabric_manager="active",
        fabric_manager_version="580.95.05",
    )


def test_what_the_driver_says_when_it_fails_is_told(shell: Local, tmp_path: Path) -> None:
    shell.write("nvidia-smi", 'echo "Failed to initialize NVML: Driver/library mismatch"; exit 18')
    found = look_at(shell, "nvidia", system=str(tmp_path))
    assert found.failed == "Failed to initialize NVML: Driver/library mismatch"


def test_a_host_without_nvidias_programs_says_so(shell: Local, tmp_path: Path) -> None:
    found = look_at(shell, "nvidia", system=str(tmp_path))
    assert found == Accelerators(failed="nvidia-smi is not installed", fabric_manager=FABRIC)


# What systemd says of a unit that does not exist, where there is a systemd.
FABRIC = subprocess.run(
    ["sh", "-c", "systemctl is-active nvidia-fabricmanager 2> /dev/null"],
    capture_output=True,
    text=True,
    check=False,
).stdout.strip()


def test_amds_devices_are_found_in_sysfs(shell: Local, tmp_path: Path) -> None:
    nodes = tmp_path / "class/kfd/kfd/topology/nodes"
    for number, properties in enumerate(
        ("simd_count 0\n", "simd_count 1216\ndrm_render_minor 129\n")
    ):
        (nodes / str(number) / "mem_banks/0").mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(properties)
    bank = f"heap_type 1\nsize_in_bytes {192 << 30}\nflags 0\n"
    (nodes / "1/mem_banks/0/properties").write_text(bank)
    card = tmp_path / "class/drm/renderD129/device"
    card.mkdir(parents=True)
    (card / "product_name").write_text("AMD Instinct MI300X OAM\n")
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    (tmp_path / "module/amdgpu/version").write_text("6.10.5\n")
    found = look_at(shell, "amd", system=str(tmp_path))
    assert found.devices == (Device("AMD Instinct MI300X OAM", 196608, "6.10.5", "", "", ""),)


def test_a_host_without_amds_driver_says_so(shell: Local, tmp_path: Path) -> None:
    assert "amdgpu is not loaded" in look_at(shell, "amd", system=str(tmp_path)).failed
