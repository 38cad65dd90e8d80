"""What every vendor's driver answers about the accelerators of this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class DriverGoneError(Exception):
    """The driver does not answer. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A device that tasks can be given. Its UUID is the same after a reboot."""

    uuid: str  # "GPU-5f8a…"; of an NVIDIA device's part "MIG-5f8a…"
    model: str  # as the driver calls it: "NVIDIA H100 80GB HBM3"
    memory_bytes: int
    driver: str  # its version: "580.95.05"
    pci_address: str  # "0000:3b:00.0"
    files: tuple[str, ...] = ()  # device files that a container needs


@dataclass(frozen=True)
class Signal:
    """Something that an accelerator shows, which the table of `health.verdicts` judges.

    `code` is the number of an XID or of a recovery action, and 0 where a kind has only one.
    """

    kind: str
    code: int = 0


@dataclass(frozen=True)
class Observation:
    """A signal of one accelerator. `detail` has the figures, for people."""

    uuid: str
    signal: Signal
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """How a task gets its accelerators: by variables, and in containers by device files."""

    variables: Mapping[str, str]
    files: tuple[str, ...] = ()


# DCGM exporter's name of a figure -> its value
Figures = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class State:
    """One look at all accelerators."""

    accelerators: tuple[Accelerator, ...]
    observations: tuple[Observation, ...] = ()
    figures: Mapping[str, Figures] = field(default_factory=dict)  # by UUID


class Driver(Protocol):
    """A vendor's driver. `look` and `events` raise DriverGoneError."""

    vendor: str  # in Nomad's names: "nvidia" in "nvidia/gpu"

    def look(self) -> State:
        """What there is, and what is wrong with it now."""
        ...

    def events(self, timeout_s: float) -> list[Observation]:
        """What happened since the last call; waits for the first event at most `timeout_s`."""
        ...

    def reserve(self, accelerators: Sequence[Accelerator]) -> Reservation: ...

    def close(self) -> None: ...
