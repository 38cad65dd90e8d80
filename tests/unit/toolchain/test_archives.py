from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import ArchiveServer
from tests.unit.toolchain.stand_ins import (
    ARCHIVE,
    VERSION,
    archive_pin,
    files_under,
    pin,
    program,
    sha256,
    tar_of,
    zip_of,
)
from toolchain import download, sources
from toolchain.errors import ToolchainError
from toolchain.pins import ArchivePin
from toolchain.progress import Step, silent
from toolchain.resolve import ResolvedTool, resolve
from toolchain.settings import Settings

GOOD = zip_of({"hammer": program(), "LICENSE.txt": "free"})


def resolve_archive(
    work: Path, server: ArchiveServer, archive: ArchivePin | None = None
) -> ResolvedTool:
    settings = Settings(cache=work / "cache", sources=("archive",), mirror=server.base)
    tool = pin(work, archive=archive or archive_pin(sha=sha256(GOOD)), module=False)
    return resolve(tool, settings, Step("hammer", silent))


def test_a_good_archive_becomes_the_tool_and_nothing_else_is_kept(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    tool = resolve_archive(tmp_path, archive_server)
    assert tool.source == "archive"
    assert tool.path == tmp_path / "cache/tools/bin/hammer-1.2.3/hammer"
    assert tool.path.read_text() == program()
    folder = f"tools/hammer/{VERSION}-{sha256(GOOD)[:12]}"
    assert files_under(tmp_path / "cache") == {f"{folder}/hammer", f"{folder}/provenance.json"}


def test_a_tool_that_is_there_is_not_downloaded_again(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    resolve_archive(tmp_path, archive_server)
    assert resolve_archive(tmp_path, archive_server).source == "cached"
    assert archive_server.asked == [ARCHIVE]


def test_members_of_a_tar_archive_are_taken_out_by_pattern(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    content = tar_of({"hammer-1.2.3/hammer": program(), "hammer-1.2.3/README": "x"})
    archive_server.files["hammer.tar.gz"] = content
    wanted = archive_pin(sha=sha256(content), name="hammer.tar.gz", member="hammer-*/hammer")
    assert resolve_archive(tmp_path, archive_server, wanted).path.read_text() == program()


def test_a_member_whose_name_climbs_out_of_the_folder_stays_inside(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    content = zip_of({"../../hammer": program()})
    archive_server.files[ARCHIVE] = content
    wanted = archive_pin(sha=sha256(content), member="*hammer")
    tool = resolve_archive(tmp_path, archive_server, wanted)
    assert tool.path.read_text() == program()
    assert not (tmp_path / "cache/tools/hammer/hammer").exists()
    assert not (tmp_path / "cache/tools/hammer.zip").exists()


def test_a_corrupt_archive_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD[:-1] + b"?"
    with pytest.raises(ToolchainError, match="expected ") as refusal:
        resolve_archive(tmp_path, archive_server)
    assert sha256(archive_server.files[ARCHIVE]) in refusal.value.message
    assert files_under(tmp_path / "cache") == set()


def test_an_archive_that_breaks_off_once_is_fetched_again(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    archive_server.cut[ARCHIVE] = 1
    assert resolve_archive(tmp_path, archive_server).source == "archive"
    assert archive_server.asked == [ARCHIVE, ARCHIVE]


def test_an_archive_that_always_breaks_off_leaves_nothing_behind(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    archive_server.cut[ARCHIVE] = 99
    with pytest.raises(ToolchainError, match=r"could not be installed.*archive: http"):
        resolve_archive(tmp_path, archive_server)
    assert len(archive_server.asked) == 3
    assert files_under(tmp_path / "cache") == set()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(
    status: int, tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    archive_server.busy[ARCHIVE] = [status, status]
    assert resolve_archive(tmp_path, archive_server).source == "archive"
    assert archive_server.asked == [ARCHIVE] * 3


def test_a_server_that_stays_busy_is_given_up(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    archive_server.busy[ARCHIVE] = [503] * 9
    with pytest.raises(ToolchainError, match="answers 503"):
        resolve_archive(tmp_path, archive_server)
    assert archive_server.asked == [ARCHIVE] * 3


@pytest.mark.parametrize(("stated", "most"), [(100, 100), (None, 150)])
def test_more_than_was_stated_or_is_plausible_is_not_written(
    stated: int | None,
    most: int,
    tmp_path: Path,
    archive_server: ArchiveServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(download, "_LARGE_BYTES", 150)
    archive_server.files[ARCHIVE] = GOOD
    archive_server.stated[ARCHIVE] = stated
    assert len(GOOD) > 150
    with pytest.raises(ToolchainError, match=f"is larger than {most} bytes"):
        resolve_archive(tmp_path, archive_server)
    assert files_under(tmp_path / "cache") == set()


def test_an_archive_of_another_version_is_refused(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    content = zip_of({"hammer": program("1.2.4")})
    archive_server.files[ARCHIVE] = content
    with pytest.raises(ToolchainError, match=r"version 1\.2\.4, not 1\.2\.3"):
        resolve_archive(tmp_path, archive_server, archive_pin(sha=sha256(content)))
    assert files_under(tmp_path / "cache") == set()


@pytest.mark.parametrize(
    ("text", "limit_s", "reason"),
    [
        ("#!/bin/sh\nexec sleep 60\n", 0.5, r"hammer has not reported its version within 0\.5 s"),
        ("#!/nowhere/sh\n", 60, "hammer cannot be run: No such file or directory"),
        ("#!/bin/sh\necho Hammer\n", 60, "hammer does not report its version"),
    ],
)
def test_a_program_that_reports_no_version_here_is_unavailable_for_that_reason(
    text: str,
    limit_s: float,
    reason: str,
    tmp_path: Path,
    archive_server: ArchiveServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "_VERSION_TIMEOUT_S", limit_s)
    content = zip_of({"hammer": text})
    archive_server.files[ARCHIVE] = content
    with pytest.raises(ToolchainError, match=f"could not be installed: archive: {reason}"):
        resolve_archive(tmp_path, archive_server, archive_pin(sha=sha256(content)))


def test_without_a_checksum_no_archive_is_requested(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    with pytest.raises(ToolchainError, match="archive: its checksum is not known"):
        resolve_archive(tmp_path, archive_server, archive_pin(sha=None))
    assert archive_server.asked == []


def test_an_absent_archive_names_the_address_and_the_answer(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    with pytest.raises(ToolchainError, match=rf"{archive_server.base}/{ARCHIVE} answers 404"):
        resolve_archive(tmp_path, archive_server)


def test_the_operators_checksum_file_makes_a_mirror_usable(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    archive_server.files[ARCHIVE] = GOOD
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text(f"{sha256(GOOD)}  {ARCHIVE}\n{'0' * 64}  other.zip\n")
    environ = {
        "SLIPWAY_MIRROR": f"{archive_server.base}/",
        "SLIPWAY_MIRROR_CHECKSUMS": str(checksums),
        "PATH": str(tmp_path),
    }
    settings = Settings.read(tmp_path / "cache", environ)
    tool = resolve(
        pin(tmp_path, archive=archive_pin(), module=False), settings, Step("hammer", silent)
    )
    assert tool.source == "archive"


def test_a_token_in_the_mirrors_address_is_used_and_never_shown(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    secret = "canary-6f1d"
    mirror = archive_server.base.replace("://", f"://ci:{secret}@")
    settings = Settings(cache=tmp_path / "cache", sources=("archive",), mirror=mirror)
    seen: list[str] = []

    def show(*told: object) -> None:
        seen.append(str(told))

    def resolved(sha: str) -> None:
        tool = pin(tmp_path, archive=archive_pin(sha=sha), module=False)
        resolve(tool, settings, Step("hammer", show))

    for content, sha in (({}, sha256(GOOD)), ({ARCHIVE: GOOD}, "0" * 64)):
        archive_server.files.update(content)
        with pytest.raises(ToolchainError) as failed:
            resolved(sha)
        seen.append(f"{failed.value.message} {failed.value.fix}")
    resolved(sha256(GOOD))
    assert any(archive_server.base in told for told in seen)
    assert secret not in "".join(seen)
    written = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert secret.encode() not in b"".join(written)
    assert set(archive_server.credentials) == {f"ci:{secret}"}
