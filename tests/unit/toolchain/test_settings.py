from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchain import settings as settings_module
from toolchain.errors import ToolchainError
from toolchain.pins import HERE
from toolchain.settings import SOURCES, Settings, default_cache


def read(work: Path, **environ: str) -> Settings:
    return Settings.read(work / "cache", {"XDG_CONFIG_HOME": str(work / "config"), **environ})


def test_nothing_set_means_every_source_and_no_mirror(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert (settings.sources, settings.mirror, dict(settings.checksums)) == (SOURCES, None, {})


def test_the_sources_keep_the_order_they_are_given_in(tmp_path: Path) -> None:
    assert read(tmp_path, SLIPWAY_TOOL_SOURCES="module, path").sources == ("module", "path")


def test_an_unknown_source_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="unknown source: luck") as refusal:
        read(tmp_path, SLIPWAY_TOOL_SOURCES="path,luck")
    assert refusal.value.exit_code == 2


def test_the_manual_names_every_setting() -> None:
    manual = (HERE.parent / "docs" / "tools.md").read_text()
    settings = set(re.findall(r"SLIPWAY_\w+", str(settings_module.__doc__)))
    assert len(settings) == 5
    assert settings - set(re.findall(r"SLIPWAY_\w+", manual)) == set()


def test_checksums_are_read_from_the_users_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config/slipway/checksums.txt"
    file.parent.mkdir(parents=True)
    file.write_text(f"{'AB' * 32}  nomad.zip\n\n{'12' * 32} *consul.zip\n")
    assert read(tmp_path).checksums == {"nomad.zip": "ab" * 32, "consul.zip": "12" * 32}


def test_a_broken_checksum_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sums"
    file.write_text(f"{'ab' * 32}  nomad.zip\nab12  consul.zip\n")
    with pytest.raises(ToolchainError, match="sums, line 2: not a checksum line") as refusal:
        read(tmp_path, SLIPWAY_MIRROR_CHECKSUMS=str(file))
    assert refusal.value.exit_code == 2


def test_two_checksums_of_one_file_are_wrong_input(tmp_path: Path) -> None:
    file = tmp_path / "sums"
    same = f"{'ab' * 32}  nomad.zip\n{'AB' * 32}  nomad.zip\n"
    file.write_text(same)
    assert read(tmp_path, SLIPWAY_MIRROR_CHECKSUMS=str(file)).checksums == {"nomad.zip": "ab" * 32}
    file.write_text(f"{same}{'cd' * 32}  nomad.zip\n")
    with pytest.raises(ToolchainError, match=r"line 3: another sum for nomad\.zip") as refusal:
        read(tmp_path, SLIPWAY_MIRROR_CHECKSUMS=str(file))
    assert refusal.value.exit_code == 2


def test_a_named_checksum_file_that_is_not_there_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"SLIPWAY_MIRROR_CHECKSUMS: .* does not exist"):
        read(tmp_path, SLIPWAY_MIRROR_CHECKSUMS=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SLIPWAY_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, Path("/one")),
        ({"XDG_CACHE_HOME": "/two"}, Path("/two/slipway")),
        ({}, Path.home() / ".cache/slipway"),
    ],
)
def test_the_cache_folder_follows_the_environment(environ: dict[str, str], folder: Path) -> None:
    assert default_cache(environ) == folder
