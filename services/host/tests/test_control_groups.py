"""Which control groups are removed. Folders stand in for the kernel's: rmdir treats both alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from host import control_groups

OURS = "0a1b2c3d-0000-4000-8000-000000000001"
THEIRS = "0a1b2c3d-0000-4000-8000-000000000002"
VERSION_1 = ("cpu/nomad/{}.server", "memory/nomad/{}.server", "cpuset/nomad/reserve/{}.server")
VERSION_2 = ("nomad.slice/share.slice/{}.server.scope", "nomad.slice/reserve.slice/{}.web.scope")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(control_groups, "CONTROL_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "GRACE_S", 0.2)
    (tmp_path / "nodes/cpu-0/nomad/data/alloc" / OURS).mkdir(parents=True)
    return tmp_path / "cgroup"


@pytest.mark.parametrize("layout", [VERSION_1, VERSION_2])
@pytest.mark.parametrize("folder", ["nodes", "nodes/cpu-0/nomad"])
def test_only_the_groups_of_the_folders_own_allocations_go(
    groups: Path, tmp_path: Path, layout: tuple[str, ...], folder: str
) -> None:
    for allocation in (OURS, THEIRS):
        for path in layout:
            (groups / path.format(allocation)).mkdir(parents=True)
    control_groups.remove_below(tmp_path / folder)
    assert [(groups / path.format(OURS)).exists() for path in layout] == [False] * len(layout)
    assert [(groups / path.format(THEIRS)).exists() for path in layout] == [True] * len(layout)


def test_a_group_that_keeps_a_process_stays_and_is_named(
    groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, gone = (groups / f"{name}/nomad/{OURS}.web" for name in ("cpu", "memory"))
    (kept / "a process").mkdir(parents=True)
    gone.mkdir(parents=True)
    control_groups.remove_below(tmp_path / "nodes")
    assert kept.exists()
    assert not gone.exists()
    assert str(kept) in capsys.readouterr().out


def test_a_machine_without_nomads_groups_has_nothing_to_remove(
    groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups.mkdir()
    (groups / "cpu").mkdir()
    (groups / "cpu/nomad").write_text("not a group")
    control_groups.remove_below(tmp_path / "nodes")
    control_groups.remove_below(tmp_path / "no such folder")
    assert capsys.readouterr().out == ""
