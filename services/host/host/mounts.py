"""Mounts that Nomad leaves below an allocation: a tmpfs for each task's secrets, as root."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from program.errors import HostError

MOUNT_TABLE = Path("/proc/self/mountinfo")
OCTAL = re.compile(r"\\([0-7]{3})")


def below(folder: Path) -> list[Path]:
    """Mount points inside `folder`, the deepest first."""
    points = [_unescape(line.split()[4]) for line in MOUNT_TABLE.read_text().splitlines()]
    inside = [Path(point) for point in points if Path(point).is_relative_to(folder)]
    return sorted(inside, key=lambda point: len(point.parts), reverse=True)


def unmount_below(folder: Path) -> None:
    for point in below(folder.resolve()):
        done = subprocess.run(["umount", str(point)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostError(f"cannot unmount {point}: {done.stderr.strip()}")


def _unescape(text: str) -> str:
    """The table writes a space as \\040."""
    return OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
