from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import ArchiveServer
from tests.unit.toolchain.stand_ins import (
    ARCHIVE,
    archive_pin,
    build_of,
    files_under,
    pin,
    program,
    put_go,
    put_program,
    sha256,
    zip_of,
)
from toolchain import resolve as resolver
from toolchain.errors import ToolchainError
from toolchain.pins import ToolPin
from toolchain.progress import Step, silent
from toolchain.resolve import ResolvedTool, resolve
from toolchain.settings import SOURCES, Settings

GOOD = zip_of({"hammer": program()})
Resolve = Callable[..., ResolvedTool]


@pytest.fixture
def resolved(tmp_path: Path) -> Resolve:
    """Resolves a pin with PATH = <tmp>/bin and the system's shell tools."""

    def call(tool: ToolPin | None = None, **settings: object) -> ResolvedTool:
        path = os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"])
        chosen = Settings(cache=tmp_path / "cache", path=path, **settings)  # type: ignore[arg-type]
        return resolve(tool or pin(tmp_path), chosen, Step("hammer", silent))

    return call


def test_a_tool_on_path_in_the_pinned_version_is_used_where_it_is(
    tmp_path: Path, resolved: Resolve
) -> None:
    own = put_program(tmp_path / "bin/hammer", program())
    tool = resolved()
    assert tool.source == "path"
    assert tool.path == tmp_path / "cache/tools/bin/hammer-1.2.3/hammer"
    assert tool.path.samefile(own)
    assert resolved().source == "cached"


@pytest.mark.parametrize("version", ["1.2.4", "1.2.3-dev", "1.2.3+ent", "11.2.3", "1.2.30"])
def test_a_tool_on_path_in_another_version_is_not_used(
    version: str, tmp_path: Path, resolved: Resolve
) -> None:
    put_program(tmp_path / "bin/hammer", program(version))
    put_go(tmp_path / "bin", build=build_of())
    assert resolved().source == "built"


def test_a_tool_on_path_that_was_replaced_by_another_version_is_noticed(
    tmp_path: Path, resolved: Resolve
) -> None:
    put_program(tmp_path / "bin/hammer", program())
    put_go(tmp_path / "bin", build=build_of())
    assert resolved().source == "path"
    put_program(tmp_path / "bin/hammer", program("1.2.44"))
    assert resolved().source == "built"


def test_a_tool_on_path_that_was_removed_is_noticed(tmp_path: Path, resolved: Resolve) -> None:
    own = put_program(tmp_path / "bin/hammer", program())
    put_go(tmp_path / "bin", build=build_of())
    resolved()
    own.unlink()
    tool = resolved()
    assert tool.source == "built"
    assert tool.path.is_file()


def test_a_second_name_that_slipway_env_puts_on_path_is_ignored(
    tmp_path: Path, resolved: Resolve
) -> None:
    own = put_program(tmp_path / "bin/hammer", program())
    commands = tmp_path / "checkout/.slipway/bin"
    commands.mkdir(parents=True)
    (commands / "hammer").symlink_to(own)
    folders = [str(commands), str(tmp_path / "cache/tools/bin"), str(tmp_path / "bin")]
    assert resolved().source == "path"
    cached = resolve(
        pin(tmp_path),
        Settings(cache=tmp_path / "cache", path=os.pathsep.join(folders)),
        Step("hammer", silent),
    )
    assert cached.source == "cached"
    assert cached.path.samefile(own)


def test_the_sources_are_tried_in_order(
    tmp_path: Path, resolved: Resolve, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    put_go(tmp_path / "bin", build=build_of())
    tool = pin(tmp_path, archive=archive_pin(sha=sha256(GOOD)))
    assert resolved(tool, mirror=archive_server.base).source == "archive"


def test_a_mirror_that_does_not_answer_leads_to_a_build(tmp_path: Path, resolved: Resolve) -> None:
    put_go(tmp_path / "bin", build=build_of())
    tool = pin(tmp_path, archive=archive_pin(sha=sha256(GOOD)))
    assert resolved(tool, mirror="http://127.90.0.3:9").source == "built"


def test_a_source_that_was_not_asked_for_is_not_tried(tmp_path: Path, resolved: Resolve) -> None:
    put_program(tmp_path / "bin/hammer", program())
    put_go(tmp_path / "bin", build=build_of())
    assert resolved(sources=("module",)).source == "built"


def test_a_changed_module_pin_is_built_anew_beside_the_old_one(
    tmp_path: Path, resolved: Resolve
) -> None:
    put_go(tmp_path / "bin", build=build_of())
    tool = pin(tmp_path)
    old = resolved(tool).path.resolve()
    assert tool.module is not None
    (tool.module.folder / "go.sum").write_text("changed\n")
    new = resolved(tool)
    assert new.source == "built"
    assert new.path.resolve() != old
    assert old.is_file()


def test_a_pin_that_is_changed_back_needs_no_second_build(
    tmp_path: Path, resolved: Resolve
) -> None:
    put_go(tmp_path / "bin", build=f"echo x >> {tmp_path}/builds\n{build_of()}")
    tool = pin(tmp_path)
    assert tool.module is not None
    go_sum = tool.module.folder / "go.sum"
    first = resolved(tool).path.resolve()
    go_sum.write_text("changed\n")
    resolved(tool)
    go_sum.write_text("")
    back = resolved(tool)
    assert (back.source, back.path.resolve()) == ("cached", first)
    assert (tmp_path / "builds").read_text().split() == ["x", "x"]


def test_a_damaged_tool_is_made_again(tmp_path: Path, resolved: Resolve) -> None:
    put_go(tmp_path / "bin", build=build_of())
    path = resolved().path
    path.write_text("")
    assert resolved().source == "built"
    assert "Hammer" in path.read_text()


def test_a_failed_build_shows_its_last_lines_and_leaves_no_tool(
    tmp_path: Path, resolved: Resolve
) -> None:
    put_go(tmp_path / "bin", build="echo module lookup disabled >&2; exit 1")
    with pytest.raises(ToolchainError, match="module lookup disabled") as failure:
        resolved()
    assert "GOPROXY" in failure.value.fix
    assert files_under(tmp_path / "cache") == set()


def test_a_build_that_runs_out_of_disk_says_so(tmp_path: Path, resolved: Resolve) -> None:
    put_go(tmp_path / "bin", build="echo write /x: no space left on device >&2; exit 1")
    with pytest.raises(ToolchainError, match="no space left while writing"):
        resolved()


def test_a_build_of_another_version_is_not_installed(tmp_path: Path, resolved: Resolve) -> None:
    put_go(tmp_path / "bin", build=build_of("1.2.3-dev"))
    with pytest.raises(ToolchainError, match=r"hammer is version 1\.2\.3-dev"):
        resolved()
    assert files_under(tmp_path / "cache") == set()


def test_a_tool_that_could_not_be_installed_names_every_reason(
    tmp_path: Path, resolved: Resolve
) -> None:
    with pytest.raises(
        ToolchainError, match="path: no hammer on PATH; archive: no archive is pinned; wheel: no"
    ):
        resolved(pin(tmp_path, module=False))


def test_an_unwritable_cache_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(ToolchainError, match="cannot write") as refusal:
        resolve(pin(tmp_path), Settings(cache=tmp_path / "cache"), Step("hammer", silent))
    assert "SLIPWAY_CACHE" in refusal.value.fix


def test_the_report_shows_what_is_cached_or_missing_and_its_source(
    tmp_path: Path, resolved: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go(tmp_path / "bin", build=build_of())
    tool = pin(tmp_path)
    monkeypatch.setattr(resolver, "tool_pin", {"hammer": tool}.__getitem__)
    (before,) = resolver.report(["hammer"], tmp_path / "cache")
    assert (before.state, before.source) == ("missing", None)
    assert not (tmp_path / "cache").exists()
    resolved(tool)
    (after,) = resolver.report(["hammer"], tmp_path / "cache")
    assert (after.state, after.source, after.version) == ("cached", "built", "1.2.3")
    assert after.path.is_file()


def test_an_unknown_tool_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no tool is called 'sledge'") as refusal:
        resolver.tools(["sledge"], tmp_path)
    assert "consul, envoy, nomad" in refusal.value.fix
    assert refusal.value.exit_code == 2


def test_every_kind_of_source_has_a_fetcher() -> None:
    assert set(resolver._FETCH) == set(resolver._RESULT) == set(SOURCES)
