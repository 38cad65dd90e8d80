"""Tools built from their pinned Go module."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.errors import ToolchainError, UnavailableError
from toolchain.go_toolchain import build_environment, find_go
from toolchain.pins import ModulePin
from toolchain.processes import CommandError, run
from toolchain.progress import Step
from toolchain.sources import Attempt, Obtained, check_versions

PROOF = "go.sum"
# One Go build already uses every core.
_build_lane = threading.Lock()
_LANE_WAIT_S = 0.5


def fetch(attempt: Attempt) -> Obtained:
    """Builds the tool. The first build takes minutes, a repeated one seconds."""
    pin = attempt.pin.module
    if pin is None:
        raise UnavailableError("no module is pinned")
    go = find_go(pin, attempt.settings, attempt.step)
    # Inside staging: an interrupted build then leaves nothing in the system's temporary folder.
    work = attempt.staging / "work"
    work.mkdir()
    env = {**build_environment(pin, attempt.settings.cache), "GOTMPDIR": str(work)}
    tagged_packages = [*_tags(pin), *pin.packages.values()]

    def run_go(*arguments: str | Path) -> None:
        try:
            run(
                [go, *arguments, *tagged_packages],
                step=attempt.step,
                log=attempt.log,
                lock=attempt.lock,
                env=env,
                cwd=pin.folder,
            )
        except CommandError as failure:
            raise _failed(attempt, failure) from failure

    # Outside the lane: downloads may run beside another tool's build.
    attempt.step.enter("downloading", "modules")
    run_go("list", "-deps")
    with _lane(attempt.step):
        attempt.step.enter("building", f"{attempt.pin.name} {attempt.pin.version}")
        run_go("build", *_flags(pin), "-o", f"{attempt.staging}/")
    work.rmdir()
    check_versions(attempt.pin, attempt.staging)
    return Obtained(key=pin.key, proof=PROOF)


def _flags(pin: ModulePin) -> list[str]:
    # The linker drops debug data (-s -w); producing it first would take 5 % of a build.
    debugging = ["-gcflags=all=-dwarf=false"] if "-w" in pin.ldflags else []
    return ["-trimpath", "-buildvcs=false", "-v", *debugging, "-ldflags", " ".join(pin.ldflags)]


def _tags(pin: ModulePin) -> list[str]:
    return ["-tags", ",".join(pin.tags)] if pin.tags else []


@contextmanager
def _lane(step: Step) -> Iterator[None]:
    if not _build_lane.acquire(blocking=False):
        step.enter("queued", "behind another build")
        while not _build_lane.acquire(timeout=_LANE_WAIT_S):
            step.tick("behind another build")
    try:
        yield
    finally:
        _build_lane.release()


def _failed(attempt: Attempt, failure: CommandError) -> ToolchainError:
    return ToolchainError(
        f"building {attempt.pin.name} {attempt.pin.version} failed:\n{failure.tail}",
        fix="check that this machine reaches a Go module proxy (GOPROXY sets another one), then "
        f"run again: compiled packages are kept; the log is {failure.log}",
    )
