"""Runs that meet each other, die, or run out of space; each is a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import ArchiveServer
from tests.unit.toolchain.stand_ins import (
    ARCHIVE,
    build_of,
    files_under,
    program,
    put_go,
    sha256,
    zip_of,
)
from tests.waiting import HANG_S

pytestmark = pytest.mark.binaries

CHECKOUT = Path(__file__).resolve().parents[3]


def start(work: Path, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.toolchain.stand_ins", str(work)],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "PATH": f"{work / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PYTHONPATH": str(CHECKOUT),
            "SLIPWAY_TOOL_SOURCES": "module",
            "XDG_CONFIG_HOME": str(work / "config"),
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_state(run: subprocess.Popen[str], state: str) -> None:
    """Reads the run's progress up to `state`; a watchdog ends a run that never gets there."""
    watchdog = threading.Timer(HANG_S, run.kill)
    watchdog.start()
    assert run.stderr is not None
    seen = []
    for line in run.stderr:
        seen.append(line)
        if line.split()[1] == state:
            break
    else:
        pytest.fail(f"the run ended before {state}: {seen}")
    watchdog.cancel()


@dataclass(frozen=True)
class GatedGo:
    """A `go` on PATH whose build reports its start through one pipe and waits for another."""

    began: Path
    gate: Path

    def wait_until_building(self) -> None:
        assert self.began.read_text() == "began\n"

    def let_go_on(self) -> None:
        self.gate.write_text("go on\n")


@pytest.fixture
def gated_go(tmp_path: Path) -> GatedGo:
    go = GatedGo(began=tmp_path / "began", gate=tmp_path / "gate")
    os.mkfifo(go.began)
    os.mkfifo(go.gate)
    put_go(tmp_path / "bin", build=f"echo began > {go.began}\nread _ < {go.gate}\n{build_of()}")
    return go


def test_two_runs_at_once_build_once_and_the_second_says_that_it_waits(
    tmp_path: Path, gated_go: GatedGo
) -> None:
    first = start(tmp_path)
    gated_go.wait_until_building()
    second = start(tmp_path)
    wait_for_state(second, "waiting")
    gated_go.let_go_on()
    first_out, _ = first.communicate(timeout=HANG_S)
    second_out, second_progress = second.communicate(timeout=HANG_S)
    path = tmp_path / "cache/tools/bin/hammer-1.2.3/hammer"
    assert first_out.split() == ["built", str(path)]
    assert second_out.split() == ["cached", str(path)]
    assert "building" not in second_progress


def test_a_killed_run_leaves_no_tool_and_the_next_one_waits_for_its_orphan_and_completes(
    tmp_path: Path, gated_go: GatedGo
) -> None:
    first = start(tmp_path)
    gated_go.wait_until_building()
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=HANG_S)
    assert not (tmp_path / "cache/tools/bin").exists()

    second = start(tmp_path)
    wait_for_state(second, "waiting")  # the orphaned build still writes there
    gated_go.let_go_on()
    gated_go.wait_until_building()
    gated_go.let_go_on()
    out, _ = second.communicate(timeout=HANG_S)
    assert out.split()[0] == "built"
    left = files_under(tmp_path / "cache/tools")
    assert {Path(name).name for name in left} == {"hammer", "provenance.json"}


def test_an_interrupted_run_ends_its_build_and_leaves_no_tool(
    tmp_path: Path, gated_go: GatedGo
) -> None:
    run = start(tmp_path)
    gated_go.wait_until_building()
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=HANG_S)
    assert run.returncode != 0
    assert files_under(tmp_path / "cache") == set()
    with pytest.raises(OSError, match="No such device or address"):
        os.open(gated_go.gate, os.O_WRONLY | os.O_NONBLOCK)  # it has no reader any more


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with space for one MiB."""
    folder = tmp_path / "cache"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_leaves_nothing_half_installed(
    tmp_path: Path, small_disk: Path, archive_server: ArchiveServer
) -> None:
    run = start(tmp_path, **served(archive_server, tmp_path))
    out, _ = run.communicate(timeout=HANG_S)
    assert run.returncode == 1
    assert "no space left while writing" in out
    assert files_under(small_disk) == set()


def test_a_file_size_limit_is_named_and_leaves_nothing_half_installed(
    tmp_path: Path, archive_server: ArchiveServer
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    run = start(tmp_path, **served(archive_server, tmp_path))
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (1 << 20, hard))
    out, _ = run.communicate(timeout=HANG_S)
    assert run.returncode == 1
    assert "no space left while writing" in out
    assert files_under(tmp_path / "cache") == set()
    assert soft == resource.getrlimit(resource.RLIMIT_FSIZE)[0]


def served(server: ArchiveServer, work: Path) -> dict[str, str]:
    """Settings for a correct archive of four MiB."""
    content = zip_of({"hammer": program() + "#" * (4 << 20)})
    server.files[ARCHIVE] = content
    checksums = work / "checksums"
    checksums.write_text(f"{sha256(content)}  {ARCHIVE}\n")
    return {
        "SLIPWAY_MIRROR": server.base,
        "SLIPWAY_MIRROR_CHECKSUMS": str(checksums),
        "SLIPWAY_TOOL_SOURCES": "archive",
    }
