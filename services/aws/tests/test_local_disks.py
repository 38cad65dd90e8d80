"""An instance's own disks become its model store, and a disk that has anything else is left alone.

There is no NVMe and no RAID where tests run: what to do with several disks is looked at without
them, and one disk is a loop device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from membership import joining, local_disks
from membership.document import ModelStore
from membership.local_disks import ARRAY, LABEL, Device, commands, found, mount, own_disks
from membership.node import Node
from membership.pool_secret import PoolSecret
from program.errors import HostError
from test_leaving import World, world

__all__ = ["world"]
PATH = "/mnt/models"
GIB = 1 << 30
FIRST, SECOND = "/dev/nvme1n1", "/dev/nvme2n1"
OURS = {"holds": "ext4", "label": LABEL}
MEMBER = {"holds": "linux_raid_member", "label": f"ip-10-40-3-7:{LABEL}"}
FOLDER = ("install", "-d", "-m", "0755", PATH)
STEM = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"


def mounted(device: str) -> tuple[str, ...]:
    return ("mount", "-t", "ext4", "-o", "noatime", device, PATH)


def made(device: str) -> tuple[str, ...]:
    return ("mkfs.ext4", *local_disks.OPTIONS, device)


def pair(*, array: Device | None = None, **held: str) -> list[Device]:
    parts = () if array is None else (array,)
    return [Device(path, **held, parts=parts) for path in (FIRST, SECOND)]


def test_an_empty_disk_gets_a_file_system_and_is_mounted() -> None:
    assert commands([Device(FIRST)], PATH) == [made(FIRST), FOLDER, mounted(FIRST)]


def test_after_a_reboot_a_disk_is_mounted_as_it_is() -> None:
    assert commands([Device(FIRST, **OURS)], PATH) == [FOLDER, mounted(FIRST)]


def test_a_disk_that_is_mounted_is_left_as_it_is() -> None:
    assert commands([Device(FIRST, **OURS, mounted=PATH)], PATH) == []
    array = Device("/dev/md127", **OURS, mounted=PATH)
    assert commands(pair(**MEMBER, array=array), PATH) == []


def test_several_empty_disks_become_one_array() -> None:
    create, *others = commands(pair(), PATH)
    assert create == (
        *("mdadm", "--create", ARRAY, "--run", "--level=0", "--raid-devices=2"),
        *(f"--name={LABEL}", FIRST, SECOND),
    )
    assert others == [made(ARRAY), FOLDER, mounted(ARRAY)]


def test_after_a_reboot_an_array_is_assembled_unless_udev_has_done_so() -> None:
    assert commands(pair(**MEMBER), PATH) == [("mdadm", "--assemble", ARRAY, FIRST, SECOND)]
    array = Device("/dev/md127", **OURS)
    assert commands(pair(**MEMBER, array=array), PATH) == [FOLDER, mounted("/dev/md127")]


def test_an_array_whose_making_was_interrupted_gets_its_file_system() -> None:
    found = pair(**MEMBER, array=Device("/dev/md127"))
    assert commands(found, PATH) == [made("/dev/md127"), FOLDER, mounted("/dev/md127")]


PARTITION = Device("/dev/nvme1n1p1", **OURS)
FOREIGN: dict[str, tuple[list[Device], str]] = {
    "another label": ([Device(FIRST, "ext4", "data")], "it has ext4 data"),
    "another file system": ([Device(FIRST, "xfs", LABEL)], f"it has xfs {LABEL}"),
    "partitions": ([Device(FIRST, "gpt", parts=(PARTITION,))], "gpt, with /dev/nvme1n1p1"),
    "several signatures": ([Device(FIRST, "several things")], "several things"),
    "a volume group": (
        pair(holds="LVM2_member", array=Device("/dev/mapper/lv", **OURS)),
        "LVM2_member, with /dev/mapper/lv",
    ),
    "somebody's array": (
        pair(holds="linux_raid_member", label="build:0"),
        "linux_raid_member build:0",
    ),
    "another file system on the array": (
        pair(**MEMBER, array=Device("/dev/md127", "xfs", LABEL)),
        "with /dev/md127",
    ),
    "one of two": ([Device(FIRST), Device(SECOND, "swap")], f"{SECOND} is in use: it has swap"),
    "one of two, made alone": ([Device(FIRST, **OURS), Device(SECOND)], f"{FIRST} is in use"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_disk_that_has_anything_else_is_not_touched(case: str) -> None:
    disks, said = FOREIGN[case]
    with pytest.raises(HostError) as refused:
        commands(disks, PATH)
    assert said in str(refused.value)
    assert "fix: use an image that leaves the instance's own disks alone" in str(refused.value)


def test_a_disk_that_is_mounted_elsewhere_is_not_touched() -> None:
    at = "/opt/dlami/nvme"
    for disk in (
        Device(FIRST, **OURS, mounted=at),
        Device(FIRST, "gpt", parts=(replace(PARTITION, mounted=at),)),
    ):
        with pytest.raises(HostError, match=f"{FIRST}(p1)? is mounted at {at}"):
            commands([disk], PATH)


def linked(folder: Path, *disks: Path) -> Path:
    """The links that udev makes: several for each disk, and those of partitions and volumes."""
    folder.mkdir()
    for number, disk in enumerate(disks):
        for suffix in ("", "-ns-1", "_1", "-part1", "_1-part12"):
            (folder / f"{STEM}{number}{suffix}").symlink_to(disk)
    (folder / "nvme-Amazon_Elastic_Block_Store_vol0123").symlink_to("/dev/nvme0n1")
    return folder


def test_disks_are_found_once_each_and_neither_partitions_nor_volumes(tmp_path: Path) -> None:
    disks = [tmp_path / "b", tmp_path / "a"]
    assert own_disks(linked(tmp_path / "by-id", *disks)) == [str(disks[1]), str(disks[0])]
    only_a_partition = tmp_path / "other"
    only_a_partition.mkdir()
    (only_a_partition / f"{STEM}0-part1").symlink_to(tmp_path / "a")
    assert own_disks(only_a_partition) == []


def test_an_instance_without_disks_of_its_own_says_so(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f"no disks of its own.*expects them at {PATH}"):
        mount(ModelStore(PATH, GIB), tmp_path / "nowhere")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


MakeDisk = Callable[[], Path]


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[MakeDisk]:
    """Makes disks of a GiB, which take no room until they are written to."""
    if os.geteuid() != 0 or not shutil.which("losetup") or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root, losetup and mkfs.ext4")
    if not Path("/dev/loop-control").exists() or not _succeeds("losetup", "--find"):
        pytest.skip("this machine has no loop devices")
    disks: list[Path] = []

    def make() -> Path:
        file = tmp_path / f"disk-{len(disks)}"
        file.touch()
        os.truncate(file, GIB)
        command = ["losetup", "--find", "--show", str(file)]
        disks.append(Path(subprocess.check_output(command, text=True).strip()))
        return disks[-1]

    yield make
    for disk in disks:
        subprocess.run(["umount", "--quiet", str(disk)], check=False)
        subprocess.run(["losetup", "--detach", str(disk)], check=True)


@pytest.fixture
def umask() -> Iterator[None]:
    """That of programs on hosts (program/errors.py)."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_disk_is_formatted_labelled_and_mounted_once(
    make_disk: MakeDisk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = make_disk()
    links = linked(tmp_path / "by-id", disk)
    store = ModelStore(str(tmp_path / "data" / "models"), int(0.9 * GIB))
    folder = Path(store.path)
    mount(store, links)
    assert folder.is_mount()
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o755, 0o755]
    (device,) = found([str(disk)])
    assert device == Device(str(disk), "ext4", LABEL, store.path)
    (line,) = (each for each in Path("/proc/mounts").read_text().splitlines() if str(disk) in each)
    assert "noatime" in line
    (folder / "weights").write_text("kept")
    capsys.readouterr()
    mount(store, links)
    assert capsys.readouterr().out == f"the instance's own disks hold 1.0 GiB at {folder}\n"
    subprocess.run(["umount", store.path], check=True)  # as a reboot does
    mount(store, links)
    assert (folder / "weights").read_text() == "kept"
    assert "mkfs" not in capsys.readouterr().out


def test_a_folder_with_something_in_it_is_not_hidden(make_disk: MakeDisk, tmp_path: Path) -> None:
    disk = make_disk()
    links = linked(tmp_path / "by-id", disk)
    (tmp_path / "models" / "weights").mkdir(parents=True)
    with pytest.raises(HostError, match="is not an empty folder"):
        mount(ModelStore(str(tmp_path / "models"), GIB // 2), links)
    assert found([str(disk)]) == [Device(str(disk))]


def test_what_is_on_a_disk_is_read_from_the_disk(make_disk: MakeDisk, tmp_path: Path) -> None:
    disk = str(make_disk())
    subprocess.run(["mkfs.ext4", "-q", "-L", "data", disk], check=True)
    assert found([disk]) == [Device(disk, "ext4", "data")]
    links = linked(tmp_path / "by-id", Path(disk))
    with pytest.raises(HostError, match="is in use: it has ext4 data"):
        mount(ModelStore(str(tmp_path / "models"), GIB // 2), links)
    assert not (tmp_path / "models").exists()


def test_disks_that_hold_less_than_the_plan_says_are_refused(
    make_disk: MakeDisk, tmp_path: Path
) -> None:
    links = linked(tmp_path / "by-id", make_disk())
    with pytest.raises(HostError, match=r"hold 1\.0 GiB; the plan says 2\.0 GiB"):
        mount(ModelStore(str(tmp_path / "models"), 2 * GIB), links)


def test_an_image_without_a_program_for_disks_is_said_to_need_another(
    make_disk: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = linked(tmp_path / "by-id", make_disk(), make_disk())
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("lsblk", "blkid"):
        (programs / name).symlink_to(str(shutil.which(name)))
    with monkeypatch.context() as without:
        without.setenv("PATH", str(programs))
        with pytest.raises(HostError) as refused:
            mount(ModelStore(str(tmp_path / "models"), GIB), links)
    assert "this image has no mdadm" in str(refused.value)
    assert "fix: use an image with mdadm (apt install mdadm)" in str(refused.value)


def test_a_node_has_its_disks_before_it_fetches_anything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[Any] = []
    monkeypatch.setattr(local_disks, "mount", did.append)
    known = PoolSecret({"certificate": {}}, (), "")
    monkeypatch.setattr(joining.pool_secret, "current", lambda _: known)
    monkeypatch.setattr(joining, "_running", lambda _: ())
    monkeypatch.setattr(joining, "introduced", lambda *_: _fails("the network"))
    monkeypatch.setattr(joining, "_bring", lambda *_: did.append("fetched"))
    store = ModelStore(PATH, GIB)
    node = Node(replace(world.node.boot, model_store=store), world.node.instance, "10.0.0.7")
    for each in (node, world.node):
        with pytest.raises(HostError, match="the network"):
            joining.join(each)
    assert did == [store, "fetched", "fetched"]


def _fails(what: str) -> Any:
    raise HostError(what)
