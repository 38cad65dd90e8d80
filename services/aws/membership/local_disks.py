"""The instance's own disks (instance store) as the model store of its pool.

They come empty with an instance, and are empty again after it was stopped. So nothing is in
/etc/fstab, and every boot looks anew. One disk has the file system itself, several are one RAID 0:
they are lost together anyway. A disk that has anything else, or is in use elsewhere, stays as it
is: the node then says so, and does not join.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.errors import HostError
from program.waiting import say

from membership.document import ModelStore

LINKS = Path("/dev/disk/by-id")
# Amazon EC2 User Guide, "SSD instance store volumes". udev makes several links for each disk, and
# others for its partitions.
OF_INSTANCE_STORE = "nvme-Amazon_EC2_NVMe_Instance_Storage_*"
OF_PARTITION = re.compile(r"-part\d+$")

LABEL = "slipway-models"  # of the file system and of the array; ext4 keeps 16 characters
ARRAY = f"/dev/md/{LABEL}"
FILE_SYSTEM, MEMBER = "ext4", "linux_raid_member"  # as blkid calls them
# Few large files, nothing kept for root, and no discarding of disks that come discarded.
OPTIONS = ("-q", "-L", LABEL, "-m", "0", "-T", "largefile4", "-E", "nodiscard")
NOTHING_FOUND, SEVERAL_FOUND = 2, 8  # exit codes of blkid
MOST_STEPS = 3  # an array is assembled, made into a file system, and mounted
PACKAGES = {"mdadm": "mdadm", "mkfs.ext4": "e2fsprogs"}
GIB = 1 << 30
FIX = "use an image that leaves the instance's own disks alone, or remove model_store.path"

Command = tuple[str, ...]


@dataclass(frozen=True)
class Device:
    """A disk, or what is made of it (`parts`: partitions, arrays), with what is on it: "ext4",
    "gpt", "" for nothing."""

    path: str
    holds: str = ""
    label: str = ""
    mounted: str = ""  # where; "" where it is not
    parts: tuple[Device, ...] = ()


def mount(store: ModelStore, links: Path = LINKS) -> None:
    """Makes the disks the model store, unless they are. Raises HostError."""
    _settle()
    disks = own_disks(links)
    if not disks:
        raise HostError(
            "this instance has no disks of its own"
            f" ({links}/{OF_INSTANCE_STORE}), and its pool expects them at {store.path}"
        )
    for _ in range(MOST_STEPS):
        steps = commands(found(disks), store.path)
        if not steps:
            break
        _must_be_free(Path(store.path))
        for command in steps:
            say(" ".join(command))
            _done(command)
        _settle()
    _check(store)


def own_disks(links: Path) -> list[str]:
    """The disks of the instance store."""
    found = (link for link in links.glob(OF_INSTANCE_STORE) if not OF_PARTITION.search(link.name))
    return sorted({str(link.resolve()) for link in found})


def commands(disks: Sequence[Device], path: str) -> list[Command]:
    """What to run next, so that the disks are mounted at `path`; nothing where they are. Raises
    HostError where they are not ours."""
    for device in _all(disks):
        if device.mounted not in ("", path):
            raise HostError(f"{device.path} is mounted at {device.mounted}\nfix: {FIX}")
    for disk in disks:
        if not _is_ours(disk, alone=len(disks) == 1):
            raise HostError(f"{disk.path} is in use: it has {_what(disk)}\nfix: {FIX}")
    volume = _volume(disks)
    if volume is not None:
        return _mounted(volume, path)
    names = [disk.path for disk in disks]
    members = [disk.path for disk in disks if disk.holds]
    if members:  # whose array misses a disk is refused by mdadm
        return [("mdadm", "--assemble", ARRAY, *members)]
    number = f"--raid-devices={len(names)}"
    create = ("mdadm", "--create", ARRAY, "--run", "--level=0", number, f"--name={LABEL}", *names)
    return [create, *_mounted(Device(ARRAY), path)]


def _mounted(volume: Device, path: str) -> list[Command]:
    if volume.mounted:
        return []
    make = [] if volume.holds else [("mkfs.ext4", *OPTIONS, volume.path)]
    # Its parents are for everyone, whatever this program's own files are.
    folder = ("install", "-d", "-m", "0755", path)
    return [*make, folder, ("mount", "-t", FILE_SYSTEM, "-o", "noatime", volume.path, path)]


def _volume(disks: Sequence[Device]) -> Device | None:
    """What has the file system, or will: the only disk, or the array of all. None as long as there
    is no array."""
    if len(disks) == 1:
        return disks[0]
    arrays = {part.path: part for disk in disks for part in disk.parts}
    return next(iter(arrays.values()), None)


def _is_ours(disk: Device, *, alone: bool) -> bool:
    """Empty, or what this program makes of one disk or of several."""
    if alone or not disk.holds:
        return not disk.parts and _is_volume(disk)
    of_array = disk.holds == MEMBER and disk.label.rpartition(":")[2] == LABEL
    return of_array and len(disk.parts) <= 1 and all(map(_is_volume, disk.parts))


def _is_volume(device: Device) -> bool:
    return not device.parts and (device.holds, device.label) in (("", ""), (FILE_SYSTEM, LABEL))


def _all(devices: Iterable[Device]) -> Iterator[Device]:
    for device in devices:
        yield device
        yield from _all(device.parts)


def _what(disk: Device) -> str:
    """In words: "ext4 data", "gpt, with /dev/nvme1n1p1"."""
    held = " ".join(each for each in (disk.holds, disk.label) if each) or "nothing"
    return ", ".join([held, *(f"with {part.path}" for part in disk.parts)])


def found(disks: Sequence[str]) -> list[Device]:
    """What is on the disks. lsblk knows what is made of them; blkid reads from the disk itself,
    where what udev remembers may be old."""
    listed = _done(("lsblk", "--json", "--output", "PATH,MOUNTPOINT", *disks))
    return [_device(each) for each in json.loads(listed)["blockdevices"]]


def _device(listed: dict[str, Any]) -> Device:
    held = _held(listed["path"])
    return Device(
        path=listed["path"],
        holds=held.get("TYPE") or held.get("PTTYPE", ""),
        label=held.get("LABEL", ""),
        mounted=listed["mountpoint"] or "",
        parts=tuple(_device(each) for each in listed.get("children", [])),
    )


def _held(device: str) -> dict[str, str]:
    command = ("blkid", "--probe", "--output", "export", device)
    done = _run(command)
    if done.returncode == NOTHING_FOUND:
        return {}
    if done.returncode == SEVERAL_FOUND:
        return {"TYPE": "several things"}
    _succeeded(command, done)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def _must_be_free(folder: Path) -> None:
    """What is in the folder would be hidden, and what is mounted there is somebody's."""
    if folder.exists() and (folder.is_mount() or any(folder.iterdir())):
        raise HostError(
            f"{folder} is not an empty folder, so the instance's own disks are not mounted there\n"
            "fix: choose another model_store.path, or an image with nothing there"
        )


def _check(store: ModelStore) -> None:
    if not Path(store.path).is_mount():
        raise HostError(f"nothing is mounted at {store.path} after all commands")
    size = shutil.disk_usage(store.path).total
    if size < store.size_bytes:
        raise HostError(
            f"the disks at {store.path} hold {_gib(size)}; the plan says {_gib(store.size_bytes)}\n"
            "fix: lower model_store.size of the pool"
        )
    say(f"the instance's own disks hold {_gib(size)} at {store.path}")


def _settle() -> None:
    """Until udev knows what was made."""
    if shutil.which("udevadm"):
        _run(("udevadm", "settle", "--timeout=30"))


def _done(command: Command) -> str:
    done = _run(command)
    _succeeded(command, done)
    return done.stdout


def _succeeded(command: Command, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise HostError(f"{' '.join(command)}: {done.stderr.strip()} (exit {done.returncode})")


def _run(command: Command) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        program = command[0]
        package = PACKAGES.get(program, "util-linux")
        raise HostError(
            f"this image has no {program}, which the instance's own disks need\n"
            f"fix: use an image with {program} (apt install {package})"
        ) from None


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
