# mypy: disable-error-code="import-untyped"
"""NVIDIA's accelerators, by NVML."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pynvml as nvml

from accelerators import kinds, nvml_readings
from accelerators.driver import (
    Accelerator,
    DriverGoneError,
    Figures,
    Observation,
    Reservation,
    Signal,
    State,
)
from accelerators.kernel_log import KernelLog, Line
from accelerators.nvidia_signals import Expected, Reading, signals

VENDOR = "nvidia"
# An uncorrectable error of the memory is an XID, too (48), and is counted.
EVENTS = nvml.nvmlEventTypeXidCriticalError
# Pauses after the driver has refused to wait for events.
PAUSE_S = 0.5
# The log's lines: NVRM: Xid (PCI:0000:3b:00): 79, pid=… and, since NVLink 5,
# … 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 …; of switches:
# nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Fatal, Link 30 …
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:]+)\): (\d+),")
FATAL_LINK = re.compile(r"Xid \(PCI:[0-9a-fA-F:]+\): 1(4[4-9]|50), \w+\s+Fatal\b")
SWITCH_FAULT = re.compile(r"SXid \(PCI:[0-9a-fA-F:.]+\): \d+, Fatal")


class Nvidia:
    """The log tells what NVML does not: faults of switches, and what happened while nobody
    listened. Without one, these are not known."""

    vendor = VENDOR

    def __init__(self, expected: Expected, log: KernelLog | None = None) -> None:
        self._expected = expected
        self._log = log
        self._event_set: Any = None
        # Of devices, by UUID; and their UUIDs, by the address of NVML's handle or of the bus.
        self._before: dict[str, Reading] = {}
        self._links_ever_up: dict[str, frozenset[int]] = {}
        self._instances: dict[str, tuple[str, ...]] = {}
        self._by_handle: dict[int, str] = {}  # of those whose events are told
        self._by_bus: dict[str, str] = {}

    def look(self) -> State:
        found: list[Accelerator] = []
        observed: list[Observation] = []
        figures: dict[str, Figures] = {}
        with self._answering():
            driver = nvml.nvmlSystemGetDriverVersion()
            handles = list(_handles())
            for handle in handles:
                with _unless_lost():
                    device = nvml_readings.accelerator(handle, driver)
                    self._by_bus[device.pci_address] = device.uuid
                    given = self._given_to_tasks(device, handle)
                    now = nvml_readings.read(handle)
                    figures[device.uuid] = nvml_readings.figures(handle)
                    found += given
                    for signal in self._signals(device.uuid, now):
                        observed += self._of_device(device.uuid, *signal)
            if any(_address(handle) not in self._by_handle for handle in handles):
                self.close()  # to be told the events of a device that was lost and is back
        return State(accelerators=tuple(found), observations=tuple(observed), figures=figures)

    def events(self, timeout_s: float) -> list[Observation]:
        logged = self._from_log()
        if logged:
            return logged
        found: list[Observation] = []
        wait_ms = round(timeout_s * 1000)
        with self._answering(), suppress(TimeoutError):
            while True:
                try:
                    event = _next_event(self._event_set, wait_ms)
                except nvml.NVMLError as error:
                    if error.value in nvml_readings.GONE:
                        raise
                    # Of one device: the next look says which. The others' events need a new set.
                    self.close()
                    time.sleep(min(timeout_s, PAUSE_S))
                    break
                found += self._of_event(event)
                wait_ms = 0  # the others are there already
        return found

    def reserve(self, accelerators: Sequence[Accelerator]) -> Reservation:
        """CUDA reads the first variable; the container runtime, the second."""
        chosen = ",".join(each.uuid for each in accelerators)
        variables = {"CUDA_VISIBLE_DEVICES": chosen, "NVIDIA_VISIBLE_DEVICES": chosen}
        return Reservation(variables=variables)

    def close(self) -> None:
        if self._event_set is not None:
            with suppress(nvml.NVMLError):
                nvml.nvmlEventSetFree(self._event_set)
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()
            self._event_set = None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Opens the library, and closes it when the driver no longer answers."""
        try:
            if self._event_set is None:
                self._open()
            yield
        except nvml.NVMLError as error:
            self.close()
            raise DriverGoneError(f"NVIDIA's driver does not answer: {error}") from error

    def _open(self) -> None:
        nvml.nvmlInit()
        self._event_set = nvml.nvmlEventSetCreate()
        self._by_handle = {}
        for handle in _handles():
            with _unless_lost():
                self._by_handle[_address(handle)] = nvml.nvmlDeviceGetUUID(handle)
                supported = nvml_readings.reading(nvml.nvmlDeviceGetSupportedEventTypes, handle)
                if (supported or 0) & EVENTS:
                    nvml.nvmlDeviceRegisterEvents(handle, EVENTS, self._event_set)

    def _given_to_tasks(self, device: Accelerator, handle: Any) -> list[Accelerator]:
        """The device, or its MIG instances where the pool wants these and it has some."""
        if not (self._expected.mig and nvml_readings.mig_enabled(handle)):
            self._instances.pop(device.uuid, None)
            return [device]
        instances = nvml_readings.mig_instances(handle, device)
        self._instances[device.uuid] = tuple(each.uuid for each in instances)
        return instances

    def _signals(self, uuid: str, now: Reading) -> Iterator[tuple[Signal, str]]:
        before = self._before.get(uuid)
        ever_up = self._links_ever_up.get(uuid, frozenset()) | now.links_up
        self._before[uuid], self._links_ever_up[uuid] = now, ever_up
        return signals(now, before, ever_up, self._expected)

    def _of_event(self, event: Any) -> list[Observation]:
        uuid = self._by_handle.get(_address(event.device))
        return self._of_device(uuid, Signal(kinds.XID, int(event.eventData))) if uuid else []

    def _of_device(self, uuid: str, signal: Signal, detail: str = "") -> list[Observation]:
        """What happens to a device happens to all of its MIG instances."""
        concerned = self._instances.get(uuid, (uuid,))
        return [Observation(each, signal, detail) for each in concerned]

    def _from_log(self) -> list[Observation]:
        """Switches connect all devices, so their faults are those of all."""
        found: list[Observation] = []
        for line in self._log.lines(0) if self._log else ():
            switch = SWITCH_FAULT.search(line.text)
            if switch:
                signal = Signal(kinds.SWITCH_FAILED)
                for uuid in self._by_bus.values():
                    found += self._of_device(uuid, signal, line.text)
            found += self._xid_in_log(line)
        return found

    def _xid_in_log(self, line: Line) -> list[Observation]:
        """NVML tells of XIDs while somebody listens, but not how severe those of NVLinks are."""
        xid = XID.search(line.text)
        uuid = self._by_bus.get(f"{xid[1]}.0") if xid else None
        if xid is None or uuid is None:
            return []
        if FATAL_LINK.search(line.text):
            return self._of_device(uuid, Signal(kinds.LINK_FATAL), line.text)
        return self._of_device(uuid, Signal(kinds.XID, int(xid[2])))


def _handles() -> Iterator[Any]:
    """Of the devices that the driver has not lost."""
    for index in range(nvml.nvmlDeviceGetCount()):
        with _unless_lost():
            yield nvml.nvmlDeviceGetHandleByIndex(index)


def _next_event(event_set: Any, wait_ms: int) -> Any:
    """Raises TimeoutError if nothing happens until then."""
    try:
        return nvml.nvmlEventSetWait_v2(event_set, wait_ms)
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_TIMEOUT:
            raise TimeoutError from error
        raise


@contextmanager
def _unless_lost() -> Iterator[None]:
    """A device that the driver lost is missing from the look, which says enough."""
    try:
        yield
    except nvml.NVMLError as error:
        if error.value in nvml_readings.GONE:
            raise


def _address(handle: Any) -> int:
    """NVML's calls fail for a lost device, so handles are compared by their address."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
