"""Python environments from pinned requirement files, made with uv. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from toolchain.errors import ToolchainError, explained
from toolchain.locks import exclusive
from toolchain.processes import CommandError, run
from toolchain.progress import Progress, Step
from toolchain.requirements import digest

UV_VERSION = "0.13.9"

# The oldest C library of a host (services/operator/delivery/fitness.py).
HOST_PLATFORM = "x86_64-manylinux_2_35"

_MARKER = ".complete"
_NOT_OURS = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "CONDA_PREFIX")
# uv does not read pip's settings; a machine with its own index usually has only those.
_PIP_TO_UV = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}


def is_complete(requirements: Path, target: Path) -> bool:
    """Whether `target` holds exactly these requirements and its interpreter still exists."""
    return has_packages(requirements, target) and (target / "bin" / "python").exists()


def has_packages(requirements: Path, target: Path) -> bool:
    """Whether `target` holds exactly these requirements."""
    marker = target / _MARKER
    return marker.is_file() and marker.read_text() == digest(requirements)


def ensure_environment(
    requirements: Path, target: Path, progress: Progress, *, compile_bytecode: bool = False
) -> Path:
    """Makes the environment `target` (a `<cache>/envs/<name>`) unless it is complete; returns it.

    `requirements` pins every package: nothing is resolved. The call after an interrupted one starts
    from scratch; a second run at the same time waits for the first. Raises ToolchainError.
    """
    step = Step(target.name, progress)
    install(requirements, target, step, compile_bytecode=compile_bytecode)
    step.enter("ready")
    return target


def install(
    requirements: Path, target: Path, step: Step, *, compile_bytecode: bool = False
) -> Path:
    """`ensure_environment` as part of the caller's step."""
    if is_complete(requirements, target):
        return target
    cache = target.parents[1]
    uv = find_uv(cache, step)
    with exclusive(_lock_path(target), step) as lock:
        if not is_complete(requirements, target):
            # In place: the scripts of an environment contain its path, so it cannot be moved later.
            # The marker, written last, declares it complete.
            make: list[str | Path] = [uv, "venv", "--no-project", "--python", base_python(), target]
            fill = _pip_install(uv, requirements)
            fill += ["--python", target / "bin" / "python"]
            fill += ["--compile-bytecode"] if compile_bytecode else []
            with explained(target.parent):
                _fill((make, fill), requirements, target, step=step, lock=lock)
    return target


def install_packages(requirements: Path, python: str, target: Path, step: Step) -> Path:
    """The packages of an environment for hosts with CPython `python` ("3.10"), which this machine
    need not have: `<target>/lib/python3.10/site-packages`. Only wheels, because nothing can be
    built for it here. Raises ToolchainError."""
    if has_packages(requirements, target):
        return target
    uv = find_uv(target.parents[1], step)
    packages = target / "lib" / f"python{python}" / "site-packages"
    with exclusive(_lock_path(target), step) as lock:
        if not has_packages(requirements, target):
            fill = _pip_install(uv, requirements)
            fill += ["--python-version", python, "--python-platform", HOST_PLATFORM]
            fill += ["--only-binary", ":all:", "--python", base_python(), "--target", packages]
            # Scripts, which name this machine's Python.
            remove: list[str | Path] = ["rm", "-rf", packages / "bin"]
            with explained(target.parent):
                _fill((fill, remove), requirements, target, step=step, lock=lock)
    return target


def _pip_install(uv: Path, requirements: Path) -> list[str | Path]:
    return [uv, "pip", "install", "--no-deps", "-r", requirements.absolute()]


def _fill(
    commands: Iterable[list[str | Path]], requirements: Path, target: Path, *, step: Step, lock: int
) -> None:
    step.enter("installing", f"from {requirements.name}")
    _clear(target)
    log = target.parent / f"{target.name}.log"
    env = uv_environment(target.parents[1])
    try:
        for command in commands:
            run(command, step=step, log=log, lock=lock, env=env, cwd=target.parent)
        _mark(target, digest(requirements))
    except CommandError as failure:
        _clear(target)
        raise ToolchainError(
            f"installing {requirements} failed:\n{failure.tail}",
            fix="check that this machine reaches its package index (UV_DEFAULT_INDEX sets "
            f"another one), then run again; the log is {failure.log}",
        ) from failure
    except BaseException:
        _clear(target)
        raise
    log.unlink(missing_ok=True)


def base_python() -> Path:
    """The interpreter that this environment is based on, by its real path."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def find_uv(cache: Path, step: Step) -> Path:
    """The pinned uv: the one on PATH if it is that version, else one in its own environment."""
    found = shutil.which("uv")
    if found is not None and _uv_version(found) == UV_VERSION:
        return Path(found)
    target = cache / "envs" / f"uv-{UV_VERSION}"
    marker = target / _MARKER
    if not marker.is_file():
        with exclusive(_lock_path(target), step) as lock, explained(target.parent):
            if not marker.is_file():
                _install_uv(target, step, lock)
    return target / "bin" / "uv"


def _install_uv(target: Path, step: Step, lock: int) -> None:
    step.enter("installing", f"uv {UV_VERSION}")
    _clear(target)
    log = target.parent / f"{target.name}.log"
    env = _plain_environment()
    pip: list[str | Path] = [
        target / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
    ]
    make: list[str | Path] = [base_python(), "-m", "venv", target]
    fill = [*pip, "--disable-pip-version-check", f"uv=={UV_VERSION}"]
    try:
        for command in (make, fill):
            run(command, step=step, log=log, lock=lock, env=env, cwd=target.parent)
    except CommandError as failure:
        _clear(target)
        raise ToolchainError(
            f"installing uv {UV_VERSION} failed:\n{failure.tail}",
            fix="install Python's venv module (Debian, Ubuntu: apt-get install python3-venv) and "
            f"check that pip reaches its index, or put uv {UV_VERSION} on PATH",
        ) from failure
    _mark(target, UV_VERSION)
    log.unlink(missing_ok=True)


def _uv_version(uv: str) -> str:
    done = subprocess.run([uv, "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return words[1] if len(words) > 1 else ""


def uv_environment(cache: Path) -> dict[str, str]:
    env = _plain_environment()
    # Beside the environments, so that uv can link files instead of copying them.
    env.setdefault("UV_CACHE_DIR", str(cache / "downloads" / "uv"))
    env.setdefault("UV_PYTHON_DOWNLOADS", "never")
    for theirs, ours in _PIP_TO_UV.items():
        if theirs in env:
            env.setdefault(ours, env[theirs])
    return env


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def _lock_path(target: Path) -> Path:
    return target.parents[1] / "locks" / f"env-{target.name}.lock"


def _mark(target: Path, content: str) -> None:
    partial = target / f"{_MARKER}.partial"
    partial.write_text(content)
    partial.replace(target / _MARKER)


def _clear(target: Path) -> None:
    # The marker goes first: a half-removed environment must not look complete.
    (target / _MARKER).unlink(missing_ok=True)
    if target.exists():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
