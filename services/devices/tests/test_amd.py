"""AMD's devices, from a /sys and a kernel's log that the test writes."""

from __future__ import annotations

import pytest
from accelerators import kinds
from accelerators.amd import Amd
from accelerators.driver import DriverGoneError, Observation, Signal
from accelerators.kernel_log import KernelLog
from fake_kfd import MI300X_BYTES, FakeKfd
from fake_log import FakeLog

HANGS_S = 60.0


def test_a_device_is_known_and_a_processor_is_none(kfd: FakeKfd) -> None:
    (uuid,) = kfd.add()
    (device,) = Amd(system=kfd.system).look().accelerators
    assert (device.uuid, device.model) == (uuid, "AMD Instinct MI300X OAM")
    assert device.memory_bytes == MI300X_BYTES
    assert device.pci_address == "0000:21:00.0"
    assert device.files == ("/dev/dri/renderD129",)


def test_a_card_without_a_products_name_is_known_by_its_instruction_set(kfd: FakeKfd) -> None:
    kfd.add(product="")
    assert Amd(system=kfd.system).look().accelerators[0].model == "gfx942"


def test_a_task_gets_its_devices_by_uuid_and_a_container_their_files(kfd: FakeKfd) -> None:
    uuids = kfd.add(2)
    driver = Amd(system=kfd.system)
    reserved = driver.reserve(driver.look().accelerators)
    assert reserved.variables == {"ROCR_VISIBLE_DEVICES": ",".join(uuids)}
    assert reserved.files == ("/dev/kfd", "/dev/dri/renderD129", "/dev/dri/renderD130")


def test_a_driver_that_is_not_loaded_is_gone(kfd: FakeKfd) -> None:
    kfd.add()
    kfd.remove_driver()
    with pytest.raises(DriverGoneError, match="amdgpu is not loaded"):
        Amd(system=kfd.system).look()


def test_errors_of_every_block_are_told(kfd: FakeKfd) -> None:
    (uuid,) = kfd.add()
    kfd.set(0, ras__sdma_err_count="ue: 1\nce: 0", ras__umc_err_count="ue: 0\nce: 2\nde: 0")
    assert Amd(system=kfd.system).look().observations == (
        Observation(uuid, Signal(kinds.AMD_UNCORRECTABLE), "1 of sdma since the last reset"),
        Observation(uuid, Signal(kinds.CORRECTABLE_ECC), "2 of umc since the last reset"),
    )


def test_a_sensor_at_its_critical_temperature_is_told(kfd: FakeKfd) -> None:
    kfd.add()
    kfd.set(0, hwmon__hwmon3__temp3_input=94000, hwmon__hwmon3__temp3_crit=94000)
    kfd.set(0, hwmon__hwmon3__temp3_label="mem")
    (observed,) = Amd(system=kfd.system).look().observations
    assert (observed.signal.kind, observed.detail) == (kinds.HARDWARE_SLOWDOWN, "mem has 94 °C")


def test_what_the_kernel_logs_of_a_device_is_told(kfd: FakeKfd, log: FakeLog) -> None:
    first, second = kfd.add(2)
    driver = Amd(KernelLog(-1, log.file), system=kfd.system)
    driver.look()
    log.write("amdgpu 0000:22:00.0: amdgpu: GPU reset(3) succeeded!")
    log.write("usb 1-1: new device")
    log.write("amdgpu 0000:21:00.0: amdgpu: GPU reset(4) failed")
    found = {(each.uuid, each.signal.kind) for each in driver.events(HANGS_S)}
    assert found == {(second, kinds.RESET), (first, kinds.RESET_FAILED)}


def test_what_was_logged_before_a_return_is_not_told(kfd: FakeKfd, log: FakeLog) -> None:
    kfd.add(2)
    log.write("amdgpu 0000:21:00.0: amdgpu: GPU reset(1) failed")
    log.write("amdgpu 0000:22:00.0: amdgpu: GPU reset(2) failed")
    kernel = KernelLog(0, log.file)
    driver = Amd(kernel, system=kfd.system)
    driver.look()
    (observed,) = driver.events(HANGS_S)
    assert observed.detail == "amdgpu: GPU reset(2) failed"
    assert kernel.position == 1


def test_devices_without_a_number_of_their_own_are_told(kfd: FakeKfd) -> None:
    for device in kfd.add(2):
        assert device
    kfd.number(0, 0)
    kfd.number(1, 0)
    (observed,) = Amd(system=kfd.system).look().observations
    assert (observed.uuid, observed.signal.kind) == (f"GPU-{0:016x}", kinds.NO_NUMBER)


def test_the_partitions_of_a_device_that_share_a_number_are_told(kfd: FakeKfd) -> None:
    kfd.add(2)
    kfd.number(0, 77)
    kfd.number(1, 77)
    (observed,) = Amd(system=kfd.system).look().observations
    assert (observed.signal.kind, observed.detail) == (
        kinds.NO_NUMBER,
        f"2 devices are called GPU-{77:016x}",
    )


def test_figures_have_the_names_of_dcgm_exporter(kfd: FakeKfd) -> None:
    (uuid,) = kfd.add()
    kfd.set(0, mem_info_vram_total=4 << 20, mem_info_vram_used=1 << 20, gpu_busy_percent=50)
    assert Amd(system=kfd.system).look().figures[uuid] == {
        "DCGM_FI_DEV_FB_USED": 1,
        "DCGM_FI_DEV_FB_FREE": 3,
        "DCGM_FI_DEV_GPU_UTIL": 50,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 0,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    }
