"""Public reports of faults, from what the device shows its driver to the verdict.

`reports/known.yaml` was there when the tables were written, `reports/aside.yaml` was put aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from accelerators.amd import Amd
from accelerators.driver import Driver, DriverGoneError
from accelerators.kernel_log import KernelLog
from accelerators.nvidia import Nvidia
from fake_kfd import FakeKfd
from fake_log import FakeLog
from fake_nvml import FakeNvml
from health.record import Record
from health.verdicts import NUMBERED, OTHERS, Verdict
from health.watch import Standing, Watch
from reported import Report, before, goes_on, happens

REPORTS = Path(__file__).with_name("reports")
DEVICES = 2
LOOK_EVERY_S = 5.0  # as the clock here goes on at each reading of a device
# The name with which a reason begins, by the kind of a report's signal.
NAMES = {
    "ecc_uncorrected": ("ECC",),
    "ecc_corrected": ("ECC",),
    "row_remap_pending": ("row remapping",),
    "row_remap_failure": ("row remapping",),
    "retired_pages_pending": ("page retirement",),
    "nvlink_down": ("links",),
    "nvlink_errors": ("XID 74:",),
    "pcie_link": ("PCIe",),
    "throttle": ("slowdown", "power"),
    "sxid": ("switch",),
    "lost": ("lost",),
    "driver_gone": ("driver",),
    "amd_ras_ue": ("RAS", "bad pages"),
    "amd_ring_timeout": ("ring", "reset"),
    "amd_reset": ("reset",),
}


def reports() -> Iterator[Report]:
    for file in sorted(REPORTS.glob("*.yaml")):
        for each in yaml.safe_load(file.read_text()):
            yield Report(
                id=each["id"],
                vendor=each["vendor"],
                device=each["device"],
                signal=each["signal"],
                verdict=each["verdict"],
                contested="contested" in each,
            )


@pytest.mark.parametrize("report", list(reports()), ids=lambda report: report.id)
def test_a_reported_fault_gets_its_verdict_and_its_reason(
    report: Report,
    nvml: FakeNvml,
    kfd: FakeKfd,
    log: FakeLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = itertools.count(0, LOOK_EVERY_S)
    monkeypatch.setattr("accelerators.nvml_readings.time.monotonic", lambda: next(seconds))
    before(report, nvml, kfd)
    watch = Watch(
        _driver(report, kfd, log),
        Record(file=tmp_path / "faults.json", boot_id="boot"),
        log_position=lambda: -1,
        now_unix_s=lambda: 1_800_000_000.0,
        say=lambda _text: None,
    )
    watch.look()
    happens(report, nvml, kfd, log)
    with suppress(DriverGoneError):  # the look says so
        watch.listen(0.0)
    watch.look()
    goes_on(report, nvml, DEVICES * LOOK_EVERY_S)
    watch.look()  # conditions are believed when they last
    first, second = watch.known().standings
    assert _verdict(first) == report.verdict
    assert all(
        any(reason.startswith(name) for name in _names(report)) for reason in _reasons(first)
    )
    if report.kind not in ("sxid", "driver_gone"):  # which are about all devices
        assert _verdict(second) == Verdict.IGNORE.value


def test_every_entry_of_the_tables_names_its_source() -> None:
    rules = [*NUMBERED.values(), *OTHERS.values()]
    assert all(rule.source.startswith("https://") for rule in rules)
    assert all(rule.meaning and rule.action for rule in rules)


def _driver(report: Report, kfd: FakeKfd, log: FakeLog) -> Driver:
    kernel = KernelLog(-1, log.file)
    if report.vendor == "amd":
        return Amd(kernel, system=kfd.system)
    return Nvidia(report.expected(), kernel)


def _verdict(standing: Standing) -> str:
    if standing.faults:
        return Verdict.UNHEALTHY.value
    return Verdict.WARN.value if standing.warnings else Verdict.IGNORE.value


def _reasons(standing: Standing) -> tuple[str, ...]:
    return standing.faults or standing.warnings


def _names(report: Report) -> tuple[str, ...]:
    if report.kind == "xid":
        return (f"XID {report.signal['code']}:", "recovery:", "links:")
    return NAMES[report.kind]
