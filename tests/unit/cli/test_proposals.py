"""Files that a command writes: all of them, or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.proposals import propose, write
from slipway.config.errors import ConfigError


@pytest.fixture
def private() -> Iterator[None]:
    mask = os.umask(0o077)
    yield
    os.umask(mask)


def test_an_error_at_the_second_file_leaves_the_first_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("one")
    proposals = [propose(tmp_path, name, "two") for name in ("new", "a", "b")]
    replace = Path.replace

    def full(partial: Path, target: Path) -> Path:
        if target.name == "b":
            raise OSError(28, "No space left on device")
        return replace(partial, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write(proposals)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"a": "one"}


def test_a_link_stays_a_link_and_the_file_behind_it_changes(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("one")
    (tmp_path / "link").symlink_to("real")
    write([propose(tmp_path, "link", "two")])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "two"


def test_a_new_file_is_as_private_as_the_user_wants(tmp_path: Path, private: None) -> None:
    write([propose(tmp_path, "new", "text")])
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.a.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"Pulumi\.a\.yaml.*is not UTF-8"):
        propose(tmp_path, "Pulumi.a.yaml", "text")
