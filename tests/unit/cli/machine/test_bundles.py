from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.errors import CliError
from cli.machine.bundles import copy_bundles
from slipway.config.artifacts import bundle_digest


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


def bundle(source: Path) -> tuple[str, str]:
    """The service, and its bundle's name for its current content."""
    return "xds", f"xds-{bundle_digest(source, 'xds')}"


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_has_what_runs_on_nodes_and_nothing_else(source: Path, tmp_path: Path) -> None:
    _, name = bundle(source)
    assert copy_bundles(source, tmp_path, [bundle(source)]) == [name]
    assert names(tmp_path / "bundles") == {f"{name}/xds.py", f"{name}/control_plane/hub.py"}


def test_an_existing_bundle_is_not_written_again(source: Path, tmp_path: Path) -> None:
    before = bundle(source)
    copy_bundles(source, tmp_path, [before])
    (source / "services" / "xds" / "xds.py").write_text("edited")
    after = bundle(source)
    assert copy_bundles(source, tmp_path, [before, after]) == [after[1]]
    assert (tmp_path / "bundles" / before[1] / "xds.py").read_text() == "main"
    assert (tmp_path / "bundles" / after[1] / "xds.py").read_text() == "edited"


def test_a_service_that_changed_since_it_was_planned_makes_no_bundle(
    source: Path, tmp_path: Path
) -> None:
    planned = bundle(source)
    (source / "services" / "xds" / "xds.py").write_text("edited")
    with pytest.raises(CliError, match="services/xds was changed while this command ran"):
        copy_bundles(source, tmp_path, [planned])
    assert list((tmp_path / "bundles").iterdir()) == []


def test_what_can_be_executed_still_can_be(source: Path, tmp_path: Path) -> None:
    (source / "services" / "xds" / "xds.py").chmod(0o755)
    name = bundle(source)
    copy_bundles(source, tmp_path, [name])
    assert os.access(tmp_path / "bundles" / name[1] / "xds.py", os.X_OK)


def test_an_interrupted_copy_leaves_no_bundle(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_bundles(source, tmp_path, [bundle(source)])
    assert list((tmp_path / "bundles").iterdir()) == []


def test_what_a_killed_copy_left_is_removed_and_a_living_ones_is_not(
    source: Path, tmp_path: Path
) -> None:
    bundles = tmp_path / "bundles"
    dead, living = bundles / ".partial-999999999-xds-1", bundles / f".partial-{os.getpid()}-xds-9"
    dead.mkdir(parents=True)
    living.mkdir()
    copy_bundles(source, tmp_path, [bundle(source)])
    assert not dead.exists()
    assert living.exists()
