"""Copies of the services' code for nodes, named by content: nodes never run the working tree."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import psutil

from cli.errors import CliError
from slipway.config.artifacts import bundle_files, files_digest

_ASIDE = ".partial-"


def copy_bundles(checkout: Path, cache: Path, bundles: Iterable[tuple[str, str]]) -> list[str]:
    """Copies services/<service> to `<cache>/bundles/<name>` for each (service, name) that is
    missing; returns the new names. Each appears complete or not at all.

    CliError when a service no longer has the content that its name was made from.
    """
    home = cache / "bundles"
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home)
    made = []
    for service, name in bundles:
        if (home / name).is_dir():
            continue
        _copy(checkout, service, home, name)
        made.append(name)
    return made


def _copy(checkout: Path, service: str, home: Path, name: str) -> None:
    aside = home / f"{_ASIDE}{os.getpid()}-{name}"
    try:
        files = bundle_files(checkout, service)
        for relative in files:
            target = aside / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            # With its permissions: Nomad starts a plugin only if it can be executed.
            shutil.copy(checkout / "services" / service / relative, target)
        if name != f"{service}-{files_digest(aside, files)}":
            raise CliError(
                f"services/{service} was changed while this command ran",
                fix="run the same command again: it continues from here",
            )
        try:
            aside.rename(home / name)
        except OSError:
            if not (home / name).is_dir():  # else another run has copied the same content
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _sweep(home: Path) -> None:
    """Removes partial copies of killed runs."""
    for path in home.glob(f"{_ASIDE}*"):
        pid = path.name.removeprefix(_ASIDE).partition("-")[0]
        if not (pid.isdigit() and psutil.pid_exists(int(pid))):
            shutil.rmtree(path, ignore_errors=True)
