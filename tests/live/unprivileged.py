"""An ordinary user with a home, a checkout and a cache, and without access to root's files.

The contents of the warm cache are linked, not fetched again: files remain root's and are only read,
folders are new and belong to the user. Python environments name their interpreter, which is in
root's home on some machines; they are pointed to one that every user may run.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.live.environments import copy_tree

# Nomad needs a user with a name; this one owns and runs nothing on any machine.
USER_ID = pwd.getpwnam("nobody").pw_uid
TRIAL = 'exec "$0" -c "import ctypes, ssl, venv"'
ENVIRONMENTS = ("root-", "node-", "xds-", "engine_sim-", "envoy-", "uv-")


@contextmanager
def home_of_a_user(warm_cache: Path) -> Iterator[Path]:
    """A folder with cache/ and checkout/, usable by USER_ID; removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="slw-user-", dir="/tmp"))
    try:
        home.chmod(0o755)
        for part in ("tools", "bundles"):
            _link(warm_cache / part, home / "cache" / part)
        for environment in (warm_cache / "envs").iterdir():
            # Beside them are packages for hosts with another Python, which have no interpreter.
            whole = (environment / "pyvenv.cfg").is_file()
            if whole and environment.name.startswith(ENVIRONMENTS):
                copy = home / "cache" / "envs" / environment.name
                _link(environment, copy)
                _point_at(copy, python())
        _redirect_links(home / "cache", warm_cache)
        copy_tree(home / "checkout")
        _give(home)
        yield home
    finally:
        for process in processes():  # none, unless `down` failed
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(home)


def command_prefix() -> tuple[str, ...]:
    """Before a command: runs it as the user."""
    ids = (f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs")
    return ("setpriv", *ids)


def variables(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{python().parent}:/usr/local/bin:/usr/bin:/bin",
        "SLIPWAY_CACHE": str(home / "cache"),
    }


@functools.cache
def python() -> Path:
    """An interpreter of this version that the user may run, with everything it needs."""
    version = f"python3.{sys.version_info.minor}"
    for candidate in (Path(sys.base_prefix) / "bin" / version, Path("/usr/bin") / version):
        # Through a shell: setpriv itself would search the program with root's rights.
        command = [*command_prefix(), "/bin/sh", "-c", TRIAL, str(candidate)]
        tried = subprocess.run(command, env={}, cwd="/", capture_output=True, check=False)
        if tried.returncode == 0:
            return candidate
    pytest.skip(f"no {version} on this machine may be run by a user without root")


def processes() -> list[psutil.Process]:
    """The user's processes."""
    found = []
    for process in psutil.process_iter(["uids", "status"]):
        uids = process.info["uids"]
        if uids and uids.real == USER_ID and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def files_outside(home: Path) -> list[str]:
    """The user's files in world-writable folders."""
    return sorted(
        str(path)
        for folder in (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
        for path in folder.iterdir()
        if path != home and path.lstat().st_uid == USER_ID
    )


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    except shutil.Error:  # the cache lies on another file system
        shutil.rmtree(target)
        shutil.copytree(source, target, symlinks=True)


def _point_at(environment: Path, python: Path) -> None:
    """Moves a Python environment to another copy of its interpreter."""
    link = environment / "bin" / "python"
    if link.is_symlink() and link.readlink().is_absolute():
        link.unlink()
        link.symlink_to(python)
    settings = environment / "pyvenv.cfg"
    text = settings.read_text().splitlines()
    settings.unlink()  # it is root's own file too
    lines = [f"home = {python.parent}" if line.startswith("home = ") else line for line in text]
    settings.write_text("\n".join(lines) + "\n")


def _redirect_links(cache: Path, warm_cache: Path) -> None:
    """Absolute links within the cache."""
    for path in (cache / "tools").rglob("*"):
        if path.is_symlink() and path.readlink().is_relative_to(warm_cache):
            target = cache / path.readlink().relative_to(warm_cache)
            path.unlink()
            path.symlink_to(target)


def _give(home: Path) -> None:
    """Gives the user the folders, and the files of the checkout: the others are hard links."""
    for folder, _, files in os.walk(home):
        os.chown(folder, USER_ID, USER_ID)
        if Path(folder).is_relative_to(home / "checkout"):
            for name in files:
                os.chown(Path(folder) / name, USER_ID, USER_ID, follow_symlinks=False)
    subprocess.run(["chmod", "-R", "a+rX", str(home / "checkout")], check=True)
