"""What every source of a tool has in common.

A source fills a staging folder with the tool's binaries, or raises UnavailableError with the reason
why the next source is tried. Any other exception ends the search.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import UnavailableError
from toolchain.pins import ToolPin
from toolchain.progress import Step
from toolchain.settings import Settings
from toolchain.store import ArchiveOrigin

_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+\.\d+[-+.\w]*)")
_VERSION_TIMEOUT_S = 20


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of one source. `lock` is the descriptor that child processes inherit."""

    pin: ToolPin
    settings: Settings
    staging: Path
    step: Step
    lock: int
    log: Path


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """A filled staging folder: `key` names its content, `proof` is why it can be trusted, as
    `slipway tools` shows it; `archive` is from where the archive was, if it is one."""

    key: str
    proof: str
    archive: ArchiveOrigin | None = None


class OtherVersionError(UnavailableError):
    """A binary reports another version than the pinned one."""


def check_versions(pin: ToolPin, folder: Path) -> None:
    """Runs each binary in `folder`. UnavailableError unless all report the pinned version; it is an
    OtherVersionError where one reports another."""
    for binary in pin.binaries:
        try:
            version = _reported_version([str(folder / binary), *pin.version_arguments])
        except OSError as error:
            raise UnavailableError(f"{binary} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(
                f"{binary} has not reported its version within {_VERSION_TIMEOUT_S} s"
            ) from error
        if version is None:
            raise UnavailableError(f"{binary} does not report its version")
        if version != pin.version:
            raise OtherVersionError(f"{binary} is version {version}")


def _reported_version(command: list[str]) -> str | None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_VERSION_TIMEOUT_S,
        check=False,
    )
    match = _VERSION.search(done.stdout)
    return match[1] if match else None
