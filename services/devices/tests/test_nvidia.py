"""NVIDIA's devices, through the real binding."""

from __future__ import annotations

import pytest
from accelerators import kinds
from accelerators.driver import DriverGoneError, Observation, Signal
from accelerators.nvidia import Nvidia
from accelerators.nvidia_signals import Expected
from fake_nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, H100_BYTES, IRQ_ISSUE, FakeNvml

HANGS_S = 60.0


def test_a_device_is_known_by_uuid_model_memory_driver_and_pci_address(nvml: FakeNvml) -> None:
    (uuid,) = nvml.add(pci="0001:3b:00")
    (device,) = Nvidia(Expected()).look().accelerators
    assert (device.uuid, device.model) == (uuid, "NVIDIA H100 80GB HBM3")
    assert (device.memory_bytes, device.driver) == (H100_BYTES, "580.95.05")
    assert device.pci_address == "0001:3b:00.0"


def test_a_sound_device_shows_nothing(nvml: FakeNvml) -> None:
    nvml.add(corrected=0, uncorrected=0, remap_pending=0, lanes=16, lanes_possible=16, clocks=4)
    assert Nvidia(Expected()).look().observations == ()


def test_tasks_get_their_devices_by_uuid(nvml: FakeNvml) -> None:
    first, _, third = nvml.add(3)
    driver = Nvidia(Expected())
    devices = driver.look().accelerators
    reserved = driver.reserve([devices[0], devices[2]])
    assert reserved.variables == {
        "CUDA_VISIBLE_DEVICES": f"{first},{third}",
        "NVIDIA_VISIBLE_DEVICES": f"{first},{third}",
    }


def test_an_event_names_its_device_even_when_the_device_is_lost(nvml: FakeNvml) -> None:
    uuids = nvml.add(2)
    driver = Nvidia(Expected())
    driver.look()
    nvml.set(1, lost=GPU_IS_LOST)
    nvml.xid(1, 79)
    assert driver.events(HANGS_S) == [Observation(uuids[1], Signal(kinds.XID, 79))]


def test_a_wait_that_a_lost_device_ends_begins_anew_for_the_others(nvml: FakeNvml) -> None:
    uuids = nvml.add(2)
    driver = Nvidia(Expected())
    driver.look()
    nvml.set_host(wait=GPU_IS_LOST)
    assert driver.events(0.0) == []
    nvml.set_host(wait=None)
    assert driver.events(0.0) == []  # listens again
    nvml.xid(1, 48)
    assert driver.events(HANGS_S) == [Observation(uuids[1], Signal(kinds.XID, 48))]


def test_the_events_of_a_device_that_is_back_are_told(nvml: FakeNvml) -> None:
    uuids = nvml.add(2)
    nvml.set(1, lost=GPU_IS_LOST)
    driver = Nvidia(Expected())
    driver.look()
    nvml.set(1, lost=None)
    driver.look()
    assert driver.events(0.0) == []
    nvml.xid(1, 48)
    assert driver.events(HANGS_S) == [Observation(uuids[1], Signal(kinds.XID, 48))]


def test_one_device_with_an_odd_answer_does_not_condemn_the_others(nvml: FakeNvml) -> None:
    uuids = nvml.add(2)
    nvml.set(1, lost=IRQ_ISSUE)
    assert [each.uuid for each in Nvidia(Expected()).look().accelerators] == uuids[:1]


def test_a_device_without_memory_of_its_own_is_seen(nvml: FakeNvml) -> None:
    nvml.add(memory=None)
    (device,) = Nvidia(Expected()).look().accelerators
    assert device.memory_bytes == 0


def test_without_events_the_wait_ends(nvml: FakeNvml) -> None:
    nvml.add()
    assert Nvidia(Expected()).events(0.0) == []


def test_a_lost_device_is_left_out_and_the_others_are_seen(nvml: FakeNvml) -> None:
    uuids = nvml.add(3)
    driver = Nvidia(Expected())
    nvml.set(1, lost=GPU_IS_LOST)
    assert [each.uuid for each in driver.look().accelerators] == [uuids[0], uuids[2]]


def test_a_driver_that_is_gone_is_reported_and_found_again(nvml: FakeNvml) -> None:
    nvml.add()
    driver = Nvidia(Expected())
    driver.look()
    nvml.set_host(error=DRIVER_NOT_LOADED)
    with pytest.raises(DriverGoneError, match="does not answer"):
        driver.look()
    with pytest.raises(DriverGoneError):
        driver.events(0.0)
    nvml.set_host(error=None)
    assert len(driver.look().accelerators) == 1


def test_mig_instances_are_announced_only_where_the_pool_wants_them(nvml: FakeNvml) -> None:
    (uuid,) = nvml.add(mig=1)
    for slot in (0, 2):
        instance = f"0.{slot}"
        nvml.set(instance, uuid=f"MIG-{slot}", name="NVIDIA H100 MIG 3g.40gb", memory=40 << 30)
    whole = Nvidia(Expected()).look()
    assert [each.uuid for each in whole.accelerators] == [uuid]
    assert [each.signal.kind for each in whole.observations] == [kinds.MIG_UNWANTED]
    parts = Nvidia(Expected(mig=True)).look()
    assert [each.uuid for each in parts.accelerators] == ["MIG-0", "MIG-2"]
    assert parts.accelerators[0].memory_bytes == 40 << 30
    assert parts.observations == ()


def test_a_fault_of_a_device_is_one_of_all_its_mig_instances(nvml: FakeNvml) -> None:
    nvml.add(mig=1)
    for slot in (0, 1):
        nvml.set(f"0.{slot}", uuid=f"MIG-{slot}", name="part", memory=1)
    driver = Nvidia(Expected(mig=True))
    driver.look()
    nvml.xid(0, 79)
    assert [each.uuid for each in driver.events(HANGS_S)] == ["MIG-0", "MIG-1"]


def test_a_whole_device_where_instances_are_wanted_is_told(nvml: FakeNvml) -> None:
    nvml.add(mig=0)
    observed = Nvidia(Expected(mig=True)).look().observations
    assert [each.signal.kind for each in observed] == [kinds.MIG_MISSING]


def test_a_link_that_went_down_is_told_and_one_that_never_was_up_is_not(nvml: FakeNvml) -> None:
    nvml.add(link0=1, link1=1, link2=0)
    driver = Nvidia(Expected())
    assert driver.look().observations == ()
    nvml.set(0, link1=0)
    (observed,) = driver.look().observations
    assert (observed.signal.kind, observed.detail) == (kinds.LINK_DOWN, "NVLink 1")


def test_a_pool_that_says_how_many_links_there_are_has_them_counted(nvml: FakeNvml) -> None:
    nvml.add(link0=1, link1=0)
    (observed,) = Nvidia(Expected(links=2)).look().observations
    assert (observed.signal.kind, observed.detail) == (kinds.LINK_DOWN, "1 of 2 NVLinks are up")


def test_a_slowdown_is_told_when_two_looks_have_seen_it(nvml: FakeNvml) -> None:
    nvml.add(clocks=0x40)
    driver = Nvidia(Expected())
    assert driver.look().observations == ()
    (observed,) = driver.look().observations
    assert (observed.signal.kind, observed.detail) == (kinds.HARDWARE_SLOWDOWN, "too hot")


def test_figures_have_the_names_of_dcgm_exporter(nvml: FakeNvml) -> None:
    (uuid,) = nvml.add(used=1 << 30, temperature=54, power=301500, utilization=97, corrected=3)
    figures = Nvidia(Expected()).look().figures[uuid]
    assert figures["DCGM_FI_DEV_FB_USED"] == 1024
    assert figures["DCGM_FI_DEV_FB_FREE"] == 81559 - 1024
    assert figures["DCGM_FI_DEV_GPU_TEMP"] == 54
    assert figures["DCGM_FI_DEV_POWER_USAGE"] == 301.5
    assert figures["DCGM_FI_DEV_GPU_UTIL"] == 97
    assert figures["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"] == 3


def test_what_a_device_lacks_is_left_out(nvml: FakeNvml) -> None:
    (uuid,) = nvml.add()
    state = Nvidia(Expected()).look()
    assert state.observations == ()
    assert "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" not in state.figures[uuid]
