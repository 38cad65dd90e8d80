from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolchain.stand_ins import build_of, pin, put_go, put_program
from toolchain import wheel_source
from toolchain.errors import ToolchainError
from toolchain.go_toolchain import build_environment, find_go
from toolchain.pins import ModulePin
from toolchain.progress import Step, silent
from toolchain.settings import Settings


@pytest.fixture
def module(tmp_path: Path) -> ModulePin:
    made = pin(tmp_path).module
    assert made is not None
    return made


@pytest.fixture(autouse=True)
def go_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    go = tmp_path / "wheel/go"
    monkeypatch.setattr(wheel_source, "binaries", lambda *_: {"go": go})
    return go


def find(work: Path, module: ModulePin) -> Path:
    settings = Settings(cache=work / "cache", path=str(work / "bin"))
    return find_go(module, settings, Step("hammer", silent))


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.8", "go1.27.0", "go1.26.8 X:nodwarf5"])
def test_a_go_on_path_that_is_new_enough_builds(
    version: str, tmp_path: Path, module: ModulePin
) -> None:
    go = put_go(tmp_path / "bin", build=build_of(), version=version)
    assert find(tmp_path, module) == go


@pytest.mark.parametrize("version", ["go1.25.9", "go1.9.1", "go1.26rc1", "devel", ""])
def test_an_older_or_unreadable_go_gives_way_to_the_one_in_the_wheel(
    version: str, tmp_path: Path, module: ModulePin, go_wheel: Path
) -> None:
    put_go(tmp_path / "bin", build=build_of(), version=version)
    assert find(tmp_path, module) == go_wheel


def test_a_go_that_does_not_run_gives_way_to_the_one_in_the_wheel(
    tmp_path: Path, module: ModulePin, go_wheel: Path
) -> None:
    put_program(tmp_path / "bin/go", "\x7fnot a program")
    assert find(tmp_path, module) == go_wheel


def test_a_machine_without_go_uses_the_one_in_the_wheel(
    tmp_path: Path, module: ModulePin, go_wheel: Path
) -> None:
    assert find(tmp_path, module) == go_wheel


@pytest.mark.parametrize("setting", ["", " "], ids=["empty", "blank"])
def test_a_c_compiler_that_is_set_to_nothing_is_the_usual_one(
    setting: str, tmp_path: Path, module: ModulePin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", setting)
    with_cgo = ModulePin(**{**vars(module), "cgo": True})
    put_go(tmp_path / "bin", build=build_of())
    with pytest.raises(ToolchainError, match="gcc is not on PATH"):
        find(tmp_path, with_cgo)


def test_a_cgo_build_without_a_c_compiler_says_what_to_install(
    tmp_path: Path, module: ModulePin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    with_cgo = ModulePin(**{**vars(module), "cgo": True})
    put_go(tmp_path / "bin", build=build_of())
    with pytest.raises(ToolchainError, match="gcc is not on PATH") as refusal:
        find(tmp_path, with_cgo)
    assert "apt-get install gcc libc6-dev" in refusal.value.fix
    put_program(tmp_path / "bin/gcc", "#!/bin/sh\n")
    assert find(tmp_path, with_cgo) == tmp_path / "bin/go"


def test_a_build_keeps_its_downloads_in_the_cache_and_fetches_no_other_go(
    tmp_path: Path, module: ModulePin
) -> None:
    env = build_environment(module, tmp_path)
    assert env["GOTOOLCHAIN"] == "local"
    assert env["CGO_ENABLED"] == "0"
    assert {env["GOMODCACHE"], env["GOCACHE"]} == {f"{tmp_path}/go/mod", f"{tmp_path}/go/build"}


def test_a_build_reads_the_users_settings_and_writes_nothing_beside_them(
    tmp_path: Path, module: ModulePin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOENV", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/config")
    env = build_environment(module, tmp_path)
    assert env["XDG_CONFIG_HOME"] == f"{tmp_path}/go/config"
    assert env["GOENV"] == "/home/config/go/env"
    for name, value in (("GOENV", "off"), ("GOGC", "100"), ("GOMEMLIMIT", "1GiB")):
        monkeypatch.setenv(name, value)
        assert build_environment(module, tmp_path)[name] == value
