"""What a device shows its driver in a public report (reports/*.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelerators.nvidia_signals import Expected
from fake_kfd import FakeKfd
from fake_log import FakeLog
from fake_nvml import FakeNvml

CLOCKS = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal": 0x20,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal": 0x40,
    "hw_thermal_slowdown": 0x40,
    "thermal": 0x40,
    "hw_power_brake": 0x80,
}
LIBRARY_MISMATCH, NOT_LOADED, LOST, UNKNOWN = 18, 9, 15, 999
RECOVERY_ACTION = "field230"
# Since Ampere NVIDIA's devices for servers replace rows of their memory.
REPLACES_ROWS = re.compile(r"\b(A\d{2,3}|H\d{3}|GH200|L4|L40S?|B\d{3}|GB\d{3})\b")
# Since NVLink 5 the log says of each whether it is fatal; a report that does not say, means one.
XIDS_OF_LINKS = range(144, 151)
XID_OF_FIRST = "NVRM: Xid (PCI:0000:10:00)"
LINK_ERROR = 74  # before
LINK_OF_SWITCH = "Link 30 LTSSM Fault Up"


@dataclass(frozen=True)
class Report:
    id: str
    vendor: str
    device: str
    signal: Mapping[str, Any]
    verdict: str
    contested: bool

    @property
    def kind(self) -> str:
        return str(self.signal["kind"])

    def expected(self) -> Expected:
        """What the pool of such a host says."""
        return Expected(links=self.signal.get("expected"), lanes=self._lanes())

    def _lanes(self) -> int | None:
        return self.signal.get("lanes") or 8 if self.signal.get("by_design") else None


def before(report: Report, nvml: FakeNvml, kfd: FakeKfd) -> None:
    """The host while all is well."""
    if report.vendor == "amd":
        kfd.add(2)
        return
    nvml.add(2, name=report.device)
    links = report.signal.get("expected") or report.signal.get("total") or 0
    for device in range(2):
        nvml.set(device, **{f"link{link}": 1 for link in range(links)})
        if REPLACES_ROWS.search(report.device):
            nvml.set(device, remap_pending=0, remap_failed=0)


def happens(report: Report, nvml: FakeNvml, kfd: FakeKfd, log: FakeLog) -> None:
    """The fault, on the first device."""
    if report.vendor == "amd":
        _amd(report.kind, report.signal, kfd, log)
    else:
        _nvidia(report.kind, report.signal, nvml, log)


def goes_on(report: Report, nvml: FakeNvml, passed_s: float) -> None:
    """What grows while the fault lasts."""
    rate = report.signal.get("per_second")
    if rate:
        nvml.set(0, corrected=report.signal["count"] + round(rate * passed_s))


def _nvidia(kind: str, signal: Mapping[str, Any], nvml: FakeNvml, log: FakeLog) -> None:
    if kind == "xid":
        nvml.set(0, **{RECOVERY_ACTION: signal.get("recovery_action")})
        nvml.xid(0, signal["code"])
        if signal["code"] in XIDS_OF_LINKS:
            severity = "Fatal" if signal.get("fatal", True) else "Nonfatal"
            log.write(
                f"{XID_OF_FIRST}: {signal['code']}, NETIR_LINK_EVT  {severity}   XC0 i0 Link 01"
            )
    elif kind == "nvlink_errors" and signal.get("uncorrectable"):
        nvml.xid(0, LINK_ERROR)
    elif kind == "sxid":
        severity = "Fatal" if signal["fatal"] else "Non-fatal"
        where = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0)"
        log.write(f"{where}: {signal['code']}, {severity}, {LINK_OF_SWITCH}")
    elif kind == "lost":
        unknown = signal.get("message") == "Unknown Error"
        nvml.set(0, lost=UNKNOWN if unknown else LOST)
    elif kind == "driver_gone" and signal.get("scope") != "container":
        mismatch = "mismatch" in str(signal.get("message"))
        nvml.set_host(error=LIBRARY_MISMATCH if mismatch else NOT_LOADED)
    else:
        nvml.set(0, **_nvidia_condition(kind, signal))


def _nvidia_condition(kind: str, signal: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "nvlink_down":
        up = signal.get("total", signal.get("expected", 0)) - signal["inactive"]
        links = signal.get("expected") or signal["total"]
        return {f"link{link}": int(link < up) for link in range(links)}
    if kind == "pcie_link":
        return {
            "lanes": signal.get("lanes") or 8,
            "lanes_possible": signal.get("lanes_max") or 16,
            "generation": signal.get("generation"),
            "generation_possible": signal.get("generation_max"),
            "utilization": 0 if signal.get("idle") else 97,
        }
    conditions: dict[str, dict[str, Any]] = {
        "ecc_uncorrected": {"uncorrected": signal.get("count") or 1},
        "ecc_corrected": {"corrected": signal.get("count")},
        "row_remap_pending": {"remap_pending": 1, "remap_failed": 0},
        "row_remap_failure": {"remap_pending": 0, "remap_failed": 1},
        "retired_pages_pending": {"retired_pending": 1, "uncorrected": signal.get("dbe")},
        "throttle": {
            "clocks": signal.get("mask") or _clocks(signal),
            "power_limit": signal.get("limit_w", 700) * 1000,
            "default_power_limit": signal.get("expected_w", 700) * 1000,
        },
    }
    return conditions.get(kind, {})


def _clocks(signal: Mapping[str, Any]) -> int:
    return sum(CLOCKS[reason] for reason in signal.get("reasons", ()))


def _amd(kind: str, signal: Mapping[str, Any], kfd: FakeKfd, log: FakeLog) -> None:
    if kind == "driver_gone":
        kfd.remove_driver()
    elif kind == "amd_ras_ue" and "bad_pages" in signal:
        _logged(log, "Saved bad pages(257) reaches threshold value(256)")
    elif kind == "amd_ras_ue" and signal.get("block") == "athub":
        _logged(log, "uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!")
    elif kind in ("amd_ras_ue", "amd_ras_ce"):
        counts = {"ue": 0, "ce": 0, kind.removeprefix("amd_ras_"): signal.get("count") or 1}
        lines = "\n".join(f"{name}: {count}" for name, count in counts.items())
        kfd.set(0, **{f"ras__{signal.get('block', 'umc')}_err_count": lines})
    elif kind == "throttle":
        kfd.set(0, hwmon__hwmon3__temp3_input=signal["temperature_c"] * 1000)
        kfd.set(0, hwmon__hwmon3__temp3_crit=signal["temperature_c"] * 1000)
    elif kind == "pcie_link":
        kfd.set(0, current_link_width=signal.get("lanes") or 16)
        kfd.set(0, max_link_width=signal.get("lanes_max") or 16)
    else:
        if kind == "amd_ring_timeout":
            ring = signal.get("ring", "gfx")
            _logged(log, f"ring {ring} timeout, signaled seq=9089, emitted seq=9091")
        succeeded = signal.get("reset_succeeded", signal.get("succeeded"))
        if succeeded is not None:
            _logged(log, f"GPU reset(2) {'succeeded!' if succeeded else 'failed'}")


def _logged(log: FakeLog, text: str) -> None:
    log.write(f"amdgpu 0000:21:00.0: amdgpu: {text}")
