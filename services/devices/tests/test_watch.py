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
            Nvidia(Expected()),
            record,
            log_position=lambda: 7,
            now_unix_s=lambda: 1_800_000_000.0,
            say=self.said.append,
        )
        self.watch.look()

    def look(self, times: int = 1) -> None:
        for _ in range(times):
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


def test_what_a_program_caused_changes_nothing_but_the_figure(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    before = host.watch.known()
    nvml.xid(0, 31)
    host.watch.listen(HANGS_S)
    after = host.watch.known()
    assert (after.version, after.standings) == (before.version, before.standings)
    assert after.figures[uuids[0]]["DCGM_FI_DEV_XID_ERRORS"] == 31
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
    host.look()
    host.start_again("another boot")
    assert host.healthy() == [uuids[0], uuids[2]]


def test_a_fault_that_is_no_longer_seen_stays(host: Host, nvml: FakeNvml, uuids: list[str]) -> None:
    nvml.set(2, lost=GPU_IS_LOST)
    host.look(2)
    nvml.set(2, lost=None)
    host.look()
    assert host.healthy() == uuids[:2]


def test_a_device_that_is_missing_for_a_moment_is_not_lost(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(2, lost=GPU_IS_LOST)
    host.look()
    nvml.set(2, lost=None)
    host.look(2)
    assert host.healthy() == uuids


def test_a_warning_of_a_condition_goes_with_it(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(0, lanes=8, lanes_possible=16)
    host.look()
    assert host.standing(uuids[0]).warnings != ()
    nvml.set(0, lanes=16)
    host.look()
    assert host.standing(uuids[0]).warnings == ()


def test_a_missing_device_is_still_announced_as_lost(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set_host(count=2)
    host.look(2)
    assert host.healthy() == uuids[:2]
    assert host.standing(uuids[2]).faults[0].startswith("lost:")


def test_without_a_driver_no_device_is_healthy(host: Host, nvml: FakeNvml) -> None:
    nvml.set_host(error=DRIVER_NOT_LOADED)
    host.look(2)
    assert host.healthy() == []
    assert len(host.watch.known().standings) == 3
    assert sum("does not answer" in line for line in host.said) == 4  # once, and of each device


def test_a_host_whose_driver_was_never_there_says_so(tmp_path: Path, nvml: FakeNvml) -> None:
    nvml.set_host(error=DRIVER_NOT_LOADED)
    host = Host(tmp_path)
    host.look(2)
    assert len(host.said) == 1
    assert "does not answer" in host.said[0]


def test_an_error_that_nobody_thought_of_leaves_the_devices_as_they_are(
    host: Host, uuids: list[str]
) -> None:
    host.watch.cannot_read(ValueError("a line without a number"))
    assert host.healthy() == uuids
    assert "a line without a number" in host.standing(uuids[0]).warnings[0]
    host.look()
    assert host.standing(uuids[0]).warnings == ()


def test_while_the_driver_holds_a_call_no_device_is_healthy(host: Host, uuids: list[str]) -> None:
    host.watch.cannot_wait(61.0)
    assert host.healthy() == []
    assert "no answer for 61 s" in host.standing(uuids[0]).faults[0]
    host.look()
    assert host.healthy() == uuids


def test_what_another_start_knew_is_known_before_the_first_look(
    host: Host, uuids: list[str]
) -> None:
    record = read_record(host.file, BOOT, pytest.fail)
    watch = Watch(
        Nvidia(Expected()), record, log_position=lambda: -1, now_unix_s=lambda: 0.0, say=pytest.fail
    )
    assert [each.accelerator.uuid for each in watch.known().standings] == uuids
    assert watch.known().version == 0


def test_returned_devices_are_healthy_again(host: Host, nvml: FakeNvml, uuids: list[str]) -> None:
    nvml.xid(1, 95)
    host.watch.listen(HANGS_S)
    host.request.touch()
    host.look()
    assert host.healthy() == uuids
    assert not host.request.exists()
    host.start_again()
    assert host.healthy() == uuids


def test_a_device_that_was_taken_out_is_forgotten_by_a_return(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set_host(count=2)
    host.look(2)
    host.request.touch()
    host.look(2)
    assert [each.accelerator.uuid for each in host.watch.known().standings] == uuids[:2]


def test_a_return_that_cannot_be_recorded_is_granted_once(
    host: Host, nvml: FakeNvml, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    host.request.touch()
    host.look()
    nvml.xid(1, 79)
    host.watch.listen(HANGS_S)
    host.look(2)
    assert host.healthy() == [uuids[0], uuids[2]]


def test_a_returned_device_whose_fault_is_still_there_stays_unhealthy(
    host: Host, nvml: FakeNvml, uuids: list[str]
) -> None:
    nvml.set(1, remap_pending=0, remap_failed=1)
    host.look()
    host.request.touch()
    host.look()
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
    host.look()
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
