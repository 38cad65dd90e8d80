"""A Python of the version that the requirements are pinned for, downloaded by uv. Standard library
only, and runs under any Python from 3.9 on, as everything that it imports."""

from __future__ import annotations

from pathlib import Path

from toolchain.environments import find_uv, uv_environment
from toolchain.errors import ToolchainError, explained
from toolchain.locks import exclusive
from toolchain.processes import CommandError, run
from toolchain.progress import Progress, Step


def ensure_python(version: str, cache: Path, progress: Progress) -> Path:
    """The interpreter of `version` ("3.11") in the cache, which is downloaded if it is not there.
    Raises ToolchainError."""
    step = Step(f"Python {version}", progress)
    folder = cache / "python"
    if (found := _installed(version, folder)) is None:
        uv = find_uv(cache, step)
        with exclusive(cache / "locks" / "python.lock", step) as lock, explained(folder):
            if (found := _installed(version, folder)) is None:
                found = _download(uv, version, folder, step, lock)
    step.enter("ready")
    return found


def _installed(version: str, folder: Path) -> Path | None:
    found = sorted(folder.glob(f"cpython-{version}.*/bin/python{version}"))
    return found[-1] if found else None


def _download(uv: Path, version: str, folder: Path, step: Step, lock: int) -> Path:
    step.enter("downloading", "from uv's mirror (UV_PYTHON_INSTALL_MIRROR sets another one)")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "download.log"
    # Only this command may download an interpreter; environments are made from the one that runs.
    env = {
        **uv_environment(folder.parent),
        "UV_PYTHON_DOWNLOADS": "manual",
        "UV_PYTHON_INSTALL_DIR": str(folder),
    }
    install: list[str | Path] = [uv, "python", "install", "--no-bin", version]
    try:
        run(install, step=step, log=log, lock=lock, env=env, cwd=folder)
    except CommandError as failure:
        raise _failed(version, failure.tail) from failure
    log.unlink(missing_ok=True)
    if (found := _installed(version, folder)) is None:
        raise _failed(version, f"uv left none in {folder}")
    return found


def _failed(version: str, reason: str) -> ToolchainError:
    return ToolchainError(
        f"Python {version} cannot be downloaded:\n{reason}",
        fix=f"install Python {version}, or set UV_PYTHON_INSTALL_MIRROR to a mirror",
    )
