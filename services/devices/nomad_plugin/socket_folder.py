"""The folder of the plugin's socket. Only the user who runs Nomad's agent can open it: a port of
the loopback interface could be called by every task."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = re.compile(r"slipway-devices-(\d+)-.*")


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Below the folder for temporary files, because a socket's path must be short. Those of
    plugins that were killed are deleted."""
    for folder in Path(tempfile.gettempdir()).glob("slipway-devices-*"):
        match = NAME.fullmatch(folder.name)
        with suppress(OSError):  # another plugin may delete it as well
            if match and not _alive(int(match[1])) and folder.lstat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"slipway-devices-{os.getpid()}-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()
