"""What the readings of an NVIDIA device show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accelerators import kinds
from accelerators.driver import Signal

# No vendor gives a limit. A device whose memory was failing corrected 17,700 errors a second, and
# others have some a day (https://github.com/NVIDIA/DCGM/issues/313).
STORM_PER_S = 1000.0
# An idle device lowers the speed of its link (https://github.com/Syllo/nvtop/issues/6).
AT_WORK_PERCENT = 50
# Limits that are set on purpose are mostly a little lower than the default.
LOW_POWER_LIMIT = 0.75


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the pool says of its devices. None where it does not say: then a link that once was up
    must stay up, and a device must use the lanes that it and its slot have."""

    mig: bool = False
    links: int | None = None
    lanes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One device at one moment; None is what NVML has no answer for."""

    monotonic_s: float
    mig: bool = False
    uncorrected: int | None = None  # errors of its memory since the last reset
    corrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retirement_pending: bool | None = None
    recovery_action: int = 0
    lanes: int | None = None
    lanes_possible: int | None = None
    generation: int | None = None  # of PCIe
    generation_possible: int | None = None
    busy_percent: int | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    slowdowns: frozenset[str] = frozenset()
    links_up: frozenset[int] = frozenset()


def signals(
    now: Reading, before: Reading | None, links_ever_up: frozenset[int], expected: Expected
) -> Iterator[tuple[Signal, str]]:
    """What is wrong, or at least notable, with its details."""
    yield from _memory(now, before)
    yield from _links(now, links_ever_up, expected)
    yield from _bus(now, before, expected)
    yield from _speed(now, before)
    if now.recovery_action:
        yield Signal(kinds.RECOVERY_ACTION, now.recovery_action), ""
    if now.mig and not expected.mig:
        yield Signal(kinds.MIG_UNWANTED), ""
    if expected.mig and not now.mig:
        yield Signal(kinds.MIG_MISSING), ""


def _memory(now: Reading, before: Reading | None) -> Iterator[tuple[Signal, str]]:
    if now.uncorrected:
        remaps = now.remap_pending is not None
        kind = kinds.REMAPPABLE_ECC if remaps else kinds.UNCORRECTABLE_ECC
        yield Signal(kind), f"{now.uncorrected} since the last reset"
    if now.corrected:
        yield Signal(kinds.CORRECTABLE_ECC), f"{now.corrected} since the last reset"
        rate = _corrected_per_s(now, before)
        if rate > STORM_PER_S:
            yield Signal(kinds.ECC_STORM), f"{rate:,.0f} a second"
    if now.remap_pending:
        yield Signal(kinds.ROW_REMAP_PENDING), ""
    if now.remap_failed:
        yield Signal(kinds.ROW_REMAP_FAILED), ""
    if now.retirement_pending:
        yield Signal(kinds.PAGE_RETIREMENT_PENDING), ""


def _corrected_per_s(now: Reading, before: Reading | None) -> float:
    if before is None or before.corrected is None or now.corrected is None:
        return 0.0
    passed_s = now.monotonic_s - before.monotonic_s
    return (now.corrected - before.corrected) / passed_s if passed_s > 0 else 0.0


def _links(
    now: Reading, ever_up: frozenset[int], expected: Expected
) -> Iterator[tuple[Signal, str]]:
    """A link that never was up may not be wired, unless the pool says how many there are."""
    down = ever_up - now.links_up
    if expected.links is not None and len(now.links_up) < expected.links:
        yield Signal(kinds.LINK_DOWN), f"{len(now.links_up)} of {expected.links} NVLinks are up"
    elif expected.links is None and down:
        yield Signal(kinds.LINK_DOWN), f"NVLink {', '.join(map(str, sorted(down)))}"


def _bus(now: Reading, before: Reading | None, expected: Expected) -> Iterator[tuple[Signal, str]]:
    wanted = expected.lanes or now.lanes_possible
    if now.lanes and wanted and now.lanes < wanted:
        yield Signal(kinds.PCIE_NARROW), f"{now.lanes} of {wanted} lanes"
    slow = before is not None and _slow_at_work(before) and _slow_at_work(now)
    if slow:
        yield Signal(kinds.PCIE_SLOW), f"generation {now.generation} of {now.generation_possible}"


def _slow_at_work(reading: Reading) -> bool:
    if not (reading.generation and reading.generation_possible):
        return False
    at_work = (reading.busy_percent or 0) >= AT_WORK_PERCENT
    return at_work and reading.generation < reading.generation_possible


def _speed(now: Reading, before: Reading | None) -> Iterator[tuple[Signal, str]]:
    # Clocks are also held down for a moment when they change (DCGM's field constants).
    slow = now.slowdowns & before.slowdowns if before else frozenset[str]()
    if slow:
        yield Signal(kinds.HARDWARE_SLOWDOWN), ", ".join(sorted(slow))
    limit_w, default_w = now.power_limit_w, now.default_power_limit_w
    if limit_w and default_w and limit_w < LOW_POWER_LIMIT * default_w:
        yield Signal(kinds.POWER_LIMITED), f"{limit_w:.0f} of {default_w:.0f} W"
