"""The SDKs of clouds, each in an environment of its own: requirements-aws.txt says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.progress import ToolchainProgress
from stacks.targets import SDKS
from toolchain.environments import is_complete
from toolchain.prepare import EnvironmentJob, environment_folder, prepare
from toolchain.progress import Progress


def make_sdk(target: str, checkout: Path, cache: Path, progress: Progress | None = None) -> None:
    """Puts the SDK of a target where its program finds it, unless it is there. ToolchainError if it
    cannot be installed."""
    if target not in SDKS:
        return
    link, name, packages = SDKS[target]
    requirements = requirements_of(target, checkout)
    folder = environment_folder(name, requirements, cache)
    if not is_complete(requirements, folder):
        job = EnvironmentJob(name=name, requirements=requirements)
        prepare([job], cache, progress or ToolchainProgress())
        _compile(folder, name, packages)
    _link(checkout / link, folder)


def requirements_of(target: str, checkout: Path) -> Path:
    return checkout / f"requirements-{target}.txt"


def _compile(folder: Path, name: str, packages: Sequence[str]) -> None:
    """Of the SDK's 3,100 modules, those of the packages in use: previews write no byte code, and
    would compile them each time, which takes a second."""
    (home,) = folder.glob(f"lib/python3*/site-packages/{name}")
    compiling = [sys.executable, "-m", "compileall", "-q", "-j", "0"]
    for arguments in ([str(home / package) for package in packages], ["-l", str(home)]):
        subprocess.run([*compiling, *arguments], check=False)  # it works without, too


def _link(link: Path, folder: Path) -> None:
    if link.is_symlink() and link.readlink() == folder:
        return
    partial = link.with_name(f"{link.name}.{os.getpid()}")
    partial.symlink_to(folder)
    partial.replace(link)
