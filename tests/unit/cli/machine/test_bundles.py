from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.cli.machine.bundles import copy_bundles


@pytest.fixture
def source(tmp_path: Path) -> Path:
    service = tmp_path / "checkout" / "services" / "xds"
    (service / "control_plane").mkdir(parents=True)
    (service / "tests").mkdir()
    (service / "xds.py").write_text("main")
    (service / "control_plane" / "hub.py").write_text("hub")
    (service / "tests" / "test_hub.py").write_text("test")
    (service / "requirements.txt").write_text("grpcio")
    return tmp_path / "checkout"


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_holds_what_runs_on_nodes_and_nothing_else(source: Path, tmp_path: Path) -> None:
    assert copy_bundles(source, tmp_path, [("xds", "xds-1")]) == ["xds-1"]
    assert names(tmp_path / "bundles") == {"xds-1/xds.py", "xds-1/control_plane/hub.py"}


def test_a_bundle_that_is_there_is_not_written_again(source: Path, tmp_path: Path) -> None:
    copy_bundles(source, tmp_path, [("xds", "xds-1")])
    (source / "services" / "xds" / "xds.py").write_text("edited")
    assert copy_bundles(source, tmp_path, [("xds", "xds-1"), ("xds", "xds-2")]) == ["xds-2"]
    assert (tmp_path / "bundles" / "xds-1" / "xds.py").read_text() == "main"
    assert (tmp_path / "bundles" / "xds-2" / "xds.py").read_text() == "edited"


def test_an_interrupted_copy_leaves_no_bundle(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfile", full_disk)
    with pytest.raises(KeyboardInterrupt):
        copy_bundles(source, tmp_path, [("xds", "xds-1")])
    assert list((tmp_path / "bundles").iterdir()) == []


def test_what_a_killed_copy_left_is_removed_and_a_living_ones_is_not(
    source: Path, tmp_path: Path
) -> None:
    bundles = tmp_path / "bundles"
    dead, living = bundles / ".partial-999999999-xds-1", bundles / f".partial-{os.getpid()}-xds-9"
    dead.mkdir(parents=True)
    living.mkdir()
    copy_bundles(source, tmp_path, [("xds", "xds-1")])
    assert not dead.exists()
    assert living.exists()
