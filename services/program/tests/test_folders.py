"""Files of the environment: whole, private, and with this machine's paths filled in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from program import folders
from program.errors import InputError

ENVIRONMENT = {"SLIPWAY_RUN": "/run", "SLIPWAY_CACHE": "/cache", "SLIPWAY_SCRATCH": "/scratch"}


@pytest.mark.parametrize("missing", sorted(ENVIRONMENT))
@pytest.mark.parametrize("value", [None, "", "relative/path", "/50% full", '/5" disk', "/a #1"])
def test_a_folder_that_cannot_be_used_is_refused_by_its_name(
    missing: str, value: str | None
) -> None:
    environment = {**ENVIRONMENT, missing: value or ""}
    with pytest.raises(InputError, match=missing):
        folders.Folders.from_environment(environment)


def test_a_written_file_is_private_and_says_whether_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secrets.json"
    assert folders.write_private(path, "one")
    assert not folders.write_private(path, "one")
    assert folders.write_private(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_pass_through_to_their_own_files_stays_one(tmp_path: Path) -> None:
    for mode, expected in ((0o711, 0o711), (0o710, 0o710), (0o755, 0o700), (0o770, 0o700)):
        tmp_path.chmod(mode)
        folders.write_private(tmp_path / f"{mode:o}", "one")
        assert tmp_path.stat().st_mode & 0o777 == expected


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_file_can_be_anothers_from_the_beginning_and_again(tmp_path: Path) -> None:
    path, nobody = tmp_path / "key.pem", folders.Owner(65534, 65534)
    for content in ("one", "two", "two"):
        folders.write_private(path, content, nobody)
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65534, 0o600)
        os.chown(path, 0, 0)


def test_a_file_that_became_readable_is_made_private_again(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text("one")
    path.chmod(0o644)
    folders.write_private(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    folders.write_private(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        folders.write_private(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_placeholders_are_filled_in_everywhere_and_only_they() -> None:
    value = {"command": ["@cache@/tools/x", "-y"], "n": 1, "mail": "a@b", "deep": {"p": "@run@"}}
    assert folders.substitute(value, {"cache": Path("/c"), "run": Path("/r")}) == {
        "command": ["/c/tools/x", "-y"],
        "n": 1,
        "mail": "a@b",
        "deep": {"p": "/r"},
    }


def test_an_unknown_placeholder_is_refused() -> None:
    with pytest.raises(InputError, match="@chache@"):
        folders.substitute("@chache@/tools", {"cache": Path("/c")})
