"""Debian's Chromium and Playwright, for tests. Neither is installed on this machine."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hosts.packages import unpacked
from toolchain.environments import ensure_environment
from toolchain.prepare import environment_folder
from toolchain.progress import silent
from toolchain.settings import default_cache

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIREMENTS = Path(__file__).with_name("requirements-browser.txt")
PACKAGES = ("chromium", "fonts-dejavu-core")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio")


def missing_to_run() -> str:
    """Why there is no Chromium on this machine and none can be had; empty if there is."""
    if shutil.which("chromium"):
        return ""
    if os.geteuid():
        return (
            "this machine has no Chromium (apt-get install chromium), and only root can unpack it"
        )
    for program in ("apt-get", "unshare"):
        if shutil.which(program) is None:
            return f"this machine has no Chromium, and unpacking it needs the program {program}"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "this machine has no Chromium and allows no namespaces" if done.returncode else ""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser without a window. Raises CalledProcessError with apt's reason."""
    environment = environment_folder("browser", REQUIREMENTS, default_cache())
    ensure_environment(REQUIREMENTS, environment, silent)
    site.addsitedir(str(next(environment.glob("lib/python3*/site-packages"))))
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (importable only now)

    program, libraries = _program()
    variables = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            # Root's Chromium has no sandbox; it is shown pages of tests only.
            chromium_sandbox=bool(os.geteuid()),
            env=variables,
        )
        try:
            yield browser
        finally:
            browser.close()


def _program() -> tuple[Path, list[Path]]:
    """The browser, and the folders of libraries that this machine lacks."""
    installed = shutil.which("chromium")
    if installed:
        return Path(installed), []
    folder = unpacked(PACKAGES, default_cache() / "hosts", ("./usr/",))
    return folder / "usr/lib/chromium/chromium", [folder / each for each in LIBRARIES]
