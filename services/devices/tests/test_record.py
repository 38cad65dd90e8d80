"""The record of a boot's faults on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accelerators import kinds
from accelerators.driver import Accelerator, Observation, Signal
from health.record import Record, read_record

BOOT = "4ad5f1c2"
DEVICE = Accelerator(
    uuid="GPU-1", model="H100", memory_bytes=1 << 36, driver="580", pci_address="0000:01:00.0"
)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record(file=tmp_path / "faults.json", boot_id=BOOT)
    made.know(DEVICE)
    made.add(Observation("GPU-1", Signal(kinds.XID, 79), "gone"), 1_800_000_000)
    return made


def test_a_record_is_read_as_it_was_saved(record: Record) -> None:
    record.save()
    assert read_record(record.file, BOOT, pytest.fail) == record


def test_another_boot_starts_with_an_empty_record(record: Record) -> None:
    record.save()
    assert read_record(record.file, "another", pytest.fail).faults == {}


def test_a_host_without_a_record_starts_with_an_empty_one(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none.json", BOOT, pytest.fail).known == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        json.dumps({"boot_id": BOOT}),
        json.dumps({"boot_id": BOOT, "schema_version": 9}),
    ],
)
def test_a_record_that_cannot_be_read_is_said_and_left(tmp_path: Path, content: str) -> None:
    file = tmp_path / "faults.json"
    file.write_text(content)
    said: list[str] = []
    assert read_record(file, BOOT, said.append).faults == {}
    assert len(said) == 1
    assert "faults until now are not known" in said[0]


def test_equal_signals_are_one_fault(record: Record) -> None:
    record.add(Observation("GPU-1", Signal(kinds.XID, 79), "again"), 1_800_000_100)
    (fault,) = record.faults["GPU-1"]
    assert (fault.detail, fault.first_unix_s) == ("gone", 1_800_000_000)


def test_a_full_disk_leaves_the_record_as_it_was(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.save()
    before = record.file.read_bytes()
    record.add(Observation("GPU-1", Signal(kinds.XID, 48)), 1_800_000_200)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        record.save()
    assert record.file.read_bytes() == before
    assert record.unsaved


def test_only_its_owner_can_read_the_record(record: Record) -> None:
    record.save()
    assert record.file.stat().st_mode & 0o777 == 0o600
