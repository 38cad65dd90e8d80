"""What hosts need outside their namespaces: bridges, control groups and a folder; and its end.

    python3 leftovers.py FOLDER

waits until its standard input closes, which happens however the process that started it ends, and
then removes everything. Standard library only, because it runs without the project's path.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

BRIDGE, FABRIC = "slipway-bed", "slipway-fabric"
# Beds of different names run at once, each in a network namespace of its own.
GROUP = os.environ.get("SLIPWAY_BED", "slipway-bed")
HANG_S = 300


def hierarchies() -> Iterator[Path]:
    """Where control groups are mounted: those of version 1, and the unified hierarchy beside them,
    which a host's systemd mounts by itself."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(place)


def groups(host: str) -> list[Path]:
    """Control groups for a host, one per hierarchy, made if they do not exist."""
    made = []
    for hierarchy in hierarchies():
        group = hierarchy / GROUP / host
        for folder in (group.parent, group):
            folder.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty at first: then nothing may run
                if (folder / name).exists():
                    (folder / name).write_text((folder.parent / name).read_text())
        made.append(group)
    return made


def processes(host: str = "") -> set[int]:
    """Every process of every host, or of one."""
    found = set[int]()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / GROUP / host):
            try:
                found.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
            except OSError:  # the group was removed: ENOENT, or ENODEV while it was being read
                continue
    return found


def remove(folder: Path) -> None:
    """Ends all hosts and removes what they needed. Raises TimeoutError if one does not end."""
    deadline_s = time.monotonic() + HANG_S
    while living := processes():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"processes of hosts that do not end: {sorted(living)}")
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    for hierarchy in hierarchies():
        for place, _, _ in os.walk(hierarchy / GROUP, topdown=False):
            _remove_group(Path(place))
    unmount(folder)
    for bridge in (BRIDGE, FABRIC):
        subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def wait_for_the_end_of(host: str) -> None:
    """The kernel ends a host's processes after its first one has ended."""
    deadline_s = time.monotonic() + HANG_S
    while living := processes(host):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"processes of {host} that do not end: {sorted(living)}")
        time.sleep(0.02)


def unmount(folder: Path) -> None:
    """Unmount everything at and below a folder: the disks of hosts."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in points:
        if Path(point).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", point], check=True)


def _remove_group(group: Path) -> None:
    """The kernel still holds a group for a moment after its last process has ended."""
    deadline_s = time.monotonic() + HANG_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)
        else:
            return


if __name__ == "__main__":
    for ended_by in (signal.SIGINT, signal.SIGTERM):  # it has to outlive whoever started it
        signal.signal(ended_by, signal.SIG_IGN)
    sys.stdin.read()
    remove(Path(sys.argv[1]))
