"""Debian's Docker and its registry, unpacked for tests and not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.hosts.packages import unpacked

PACKAGES = ("docker.io", "docker-registry")  # and containerd, runc and tini
NEEDED = ("./usr/bin/", "./usr/sbin/", "./usr/lib/x86_64-linux-gnu/")


def missing_to_run() -> str:
    """Why containers cannot run on this machine; empty if they can."""
    if os.geteuid():
        return "containers need root"
    for program in ("apt-get", "unshare"):
        if shutil.which(program) is None:
            return f"Docker's daemon needs the program {program}"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "this machine allows no namespaces" if done.returncode else ""


def docker_programs(cache: Path) -> Path:
    """The folder that has them; made once. Raises CalledProcessError with apt's reason."""
    return unpacked(PACKAGES, cache, NEEDED)
