"""What is known of this host's accelerators since it booted, on disk: the plugin ends with Nomad's
agent, and a fault must outlive both."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerators.driver import Accelerator, Observation, Signal

VERSION = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The first of equal signals of an accelerator."""

    signal: Signal
    detail: str
    first_unix_s: int


@dataclass(kw_only=True)
class Record:
    """`known` are the accelerators that were there at some time since the boot or the last return,
    by UUID. What the kernel logged up to its record `returned_at` is forgotten.
    """

    file: Path
    boot_id: str
    known: dict[str, Accelerator] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)  # by UUID
    returned_at: int = -1
    unsaved: bool = False

    def know(self, accelerator: Accelerator) -> None:
        if self.known.get(accelerator.uuid) != accelerator:
            self.known[accelerator.uuid] = accelerator
            self.unsaved = True

    def add(self, observed: Observation, now_unix_s: int) -> bool:
        """Whether it is new; of equal ones only the first is kept."""
        faults = self.faults.setdefault(observed.uuid, [])
        if any(fault.signal == observed.signal for fault in faults):
            return False
        faults.append(
            Fault(signal=observed.signal, detail=observed.detail, first_unix_s=now_unix_s)
        )
        self.unsaved = True
        return True

    def forget(self, log_position: int) -> None:
        """Faults, and accelerators that may have been taken out or partitioned since."""
        self.faults.clear()
        self.known.clear()
        self.returned_at = log_position
        self.unsaved = True

    @property
    def return_request(self) -> Path:
        """A file that `slipway return` makes: forget the faults and look again."""
        return self.file.with_name(f"{self.file.name}.return")

    def save(self) -> None:
        """Whole or not at all. Raises OSError."""
        partial = self.file.with_name(f"{self.file.name}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as sink:
            json.dump(self._document(), sink, indent=2, sort_keys=True)
            sink.flush()
            os.fsync(sink.fileno())
        partial.replace(self.file)
        self.unsaved = False

    def _document(self) -> dict[str, Any]:
        return {
            "schema_version": VERSION,
            "boot_id": self.boot_id,
            "returned_at": self.returned_at,
            "accelerators": [dataclasses.asdict(each) for each in self.known.values()],
            "faults": {
                uuid: [dataclasses.asdict(fault) for fault in faults]
                for uuid, faults in self.faults.items()
            },
        }


def read_record(file: Path, boot_id: str, say: Callable[[str], None]) -> Record:
    """The record of this boot. It is empty if there is none, or none that can be read."""
    try:
        document = json.loads(file.read_text())
        if document["boot_id"] == boot_id:
            return _record(file, document)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        say(f"{file} cannot be read, so faults until now are not known: {error!r}")
    return Record(file=file, boot_id=boot_id)


def boot_id() -> str:
    return BOOT_ID.read_text().strip()


def _record(file: Path, document: dict[str, Any]) -> Record:
    """Raises ValueError, LookupError, TypeError or AttributeError."""
    if document["schema_version"] != VERSION:
        raise ValueError(f"it has the schema's version {document['schema_version']}")
    accelerators = (
        Accelerator(**{**each, "files": tuple(each["files"])}) for each in document["accelerators"]
    )
    return Record(
        file=file,
        boot_id=document["boot_id"],
        returned_at=document["returned_at"],
        known={each.uuid: each for each in accelerators},
        faults={
            uuid: [Fault(**{**fault, "signal": Signal(**fault["signal"])}) for fault in faults]
            for uuid, faults in document["faults"].items()
        },
    )
