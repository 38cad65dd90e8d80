"""Which devices tasks can be given, as faults come and go."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from accelerators.nvidia import Nvidia
from accelerators.nvidia_signals import Expected
from fake_nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, FakeNvml
from health.record import read_record
from health.watch import Known, Standing, Watch

HANGS_S = 60.0
BOOT = "4ad5f1c2"


class Host:
    """The watch of a host; `start_again` is what a restart of the plugin does."""

    def __init__(self, folder: Path, boot: str = BOOT) -> None:
        self.file = folder / "faults.json"
        self.said: list[str] = []
        self.start_again(boot)

    def start_again(self, boot: str = BOOT) -> None:
        record = read_record(self.file, boot, self.said.append)
        self.request = record.return_request
        self.watch = Watch(
            Nvidia(Expected()), record, now_unix_s=lambda: 1_800_000_000.0, say=self.said.append
        )
        self.watch.look()

    def standing(self, uuid: str) -> Standing:
        return next(each for each in self.watch.known().standings if each.accelerator.uuid == uuid)

    def healthy(self) -> list[str]:
        standings = self.watch.known().standings
        return [each.accelerator.uuid for each in standings if not each.faults]


@pytest.fixture
def uuids(nvml: FakeNvml) -> list[str]:
    return nvml.add(3)


@pytest.fixture
def host(uuids: list[str], tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_sound_devices_are_healthy(host: Host, uuids: list[str]) -> None:
    assert host.healthy() == uuids
    assert host.said == []


def test_an_xid_makes_its_device_unhealthy_at_once(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.xid(1, 79)
    host.watch.listen(HANGS_S)
    assert host.healthy() == [uuids[0], uuids[2]]
    assert host.standing(uuids[1]).faults[0].startswith("XID 79: it has fallen off the bus")
    assert len(host.said) == 1


def test_what_a_program_caused_changes_nothing(host: Host, nvml: FakeNvml) -> None:
    before = host.watch.known()
    nvml.xid(0, 31)
    host.watch.listen(HANGS_S)
    assert host.watch.known() == before
    assert host.said == []


def test_a_warning_leaves_the_device_healthy_and_is_shown(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.xid(0, 94)
    host.watch.listen(HANGS_S)
    assert host.healthy() == uuids
    assert "XID 94" in host.standing(uuids[0]).warnings[0]


def test_a_fault_outlives_the_plugin(host: Host, nvml: FakeNvml, uuids: list[str]) -> None:
    nvml.xid(1, 48)
    host.watch.listen(HANGS_S)
    host.start_again()
    assert host.healthy() == [uuids[0], uuids[2]]


def test_a_reboot_that_passes_makes_the_device_healthy(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.xid(1, 48)
    host.watch.listen(HANGS_S)
    host.start_again("another boot")
    assert host.healthy() == uuids


def test_a_reboot_after_which_the_fault_is_still_there_does_not(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(1, remap_pending=0, remap_failed=1)
    host.watch.look()
    host.start_again("another boot")
    assert host.healthy() == [uuids[0], uuids[2]]


def test_a_fault_that_is_no_longer_seen_stays(host: Host, nvml: FakeNvml, uuids: list[str]) -> None:
    nvml.set(2, lost=GPU_IS_LOST)
    host.watch.look()
    nvml.set(2, lost=None)
    host.watch.look()
    assert host.healthy() == uuids[:2]


def test_a_warning_of_a_condition_goes_with_it(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(0, lanes=8, lanes_possible=16)
    host.watch.look()
    assert host.standing(uuids[0]).warnings != ()
    nvml.set(0, lanes=16)
    host.watch.look()
    assert host.standing(uuids[0]).warnings == ()


def test_a_missing_device_is_still_announced_as_lost(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set_host(count=2)
    host.watch.look()
    assert host.healthy() == uuids[:2]
    assert host.standing(uuids[2]).faults[0].startswith("lost:")


def test_without_a_driver_no_device_is_healthy(host: Host, nvml: FakeNvml) -> None:
    nvml.set_host(error=DRIVER_NOT_LOADED)
    host.watch.look()
    assert host.healthy() == []
    assert len(host.watch.known().standings) == 3


def test_returned_devices_are_healthy_again(host: Host, nvml: FakeNvml, uuids: list[str]) -> None:
    nvml.xid(1, 95)
    host.watch.listen(HANGS_S)
    host.request.touch()
    host.watch.look()
    assert host.healthy() == uuids
    assert not host.request.exists()
    host.start_again()
    assert host.healthy() == uuids


def test_a_returned_device_whose_fault_is_still_there_stays_unhealthy(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(1, remap_pending=0, remap_failed=1)
    host.watch.look()
    host.request.touch()
    host.watch.look()
    assert host.healthy() == [uuids[0], uuids[2]]


def test_a_full_disk_does_not_hide_a_fault(
    host: Host, nvml: FakeNvml, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("os.fsync", full)
        nvml.xid(1, 79)
        host.watch.listen(HANGS_S)
        assert host.healthy() == [uuids[0], uuids[2]]
        assert any("could not be written" in line for line in host.said)
    host.watch.look()  # there is room again
    host.start_again()
    assert host.healthy() == [uuids[0], uuids[2]]


def test_those_who_wait_are_told_of_changes_only(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    version = host.watch.known().version
    host.watch.look()
    assert host.watch.known().version == version
    told: list[Known | None] = []
    waiting = threading.Thread(
        target=lambda: told.append(host.watch.wait(version, lambda: False)), daemon=True
    )
    waiting.start()
    nvml.xid(1, 79)
    host.watch.listen(HANGS_S)
    waiting.join(HANGS_S)
    assert [known.version for known in told if known] == [version + 1]


def test_those_who_wait_are_woken_at_the_end(host: Host) -> None:
    ended = threading.Event()
    told: list[Known | None] = []
    version = host.watch.known().version
    waiting = threading.Thread(
        target=lambda: told.append(host.watch.wait(version, ended.is_set)), daemon=True
    )
    waiting.start()
    ended.set()
    host.watch.wake()
    waiting.join(HANGS_S)
    assert told == [None]
