from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.cli.live.terminal import terminal
from tests.unit.toolchain.stand_ins import put_program
from tests.unit.toolchain.wheels import put_wheel
from tests.waiting import HANG_S
from toolchain.environments import UV_VERSION

CHECKOUT = Path(__file__).resolve().parents[3]
PROGRAM = """
import nail, os, sys
print(nail.VERSION, sys.prefix, os.environ["PYTHONPATH"], *sys.argv[1:])
"""

# The real uv, but an installation reports its start through a pipe and waits for the file `gate`.
GATED_UV = """#!/bin/sh
if [ "$1" = pip ]; then
    echo began > {began}
    n=0
    while [ ! -e {gate} ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n+1)); done
    exit 1
fi
exec {uv} "$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real script and toolchain, and a program of three lines."""
    folder = tmp_path / "checkout"
    (folder / "src/slipway").mkdir(parents=True)
    (folder / "src/slipway/__init__.py").touch()
    (folder / "cli.py").write_text(PROGRAM)
    shutil.copy2(CHECKOUT / "slipway", folder / "slipway")
    (folder / "toolchain").symlink_to(CHECKOUT / "toolchain")
    put_wheel(folder)
    return folder


def start(
    checkout: Path, *arguments: str, python: Path = Path(sys.executable), **environ: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, checkout / "slipway", *arguments],
        cwd=checkout.parent,
        env={**os.environ, "SLIPWAY_CACHE": str(checkout.parent / "cache"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(run: subprocess.Popen[str], words: str) -> None:
    assert run.stderr is not None
    assert any(words in line for line in run.stderr)


def environments(checkout: Path) -> list[Path]:
    return sorted((checkout.parent / "cache/envs").glob("root-*/"))


@pytest.mark.binaries
@pytest.mark.usefixtures("with_uv")
class TestTheRootEnvironment:
    def test_is_made_once_and_runs_the_program_with_its_arguments(self, checkout: Path) -> None:
        out, progress = start(checkout, "up", "--json").communicate(timeout=HANG_S)
        (environment,) = environments(checkout)
        path = f"{checkout}/src:{checkout}"
        assert out.split() == ["1.0", str(environment), path, "up", "--json"]
        assert "creating the root Python environment" in progress
        again, silence = start(checkout, "up", "--json").communicate(timeout=HANG_S)
        assert (again, silence) == (out, "")

    def test_is_what_dot_venv_points_at_and_follows_the_requirements(self, checkout: Path) -> None:
        start(checkout).communicate(timeout=HANG_S)
        first = (checkout / ".venv").resolve()
        put_wheel(checkout, version="2.0")
        out, _ = start(checkout).communicate(timeout=HANG_S)
        assert out.split()[0] == "2.0"
        assert {first, (checkout / ".venv").resolve()} == set(environments(checkout))

    def test_is_made_by_one_of_two_commands_at_once(self, checkout: Path) -> None:
        runs = [start(checkout) for _ in range(2)]
        results = [run.communicate(timeout=HANG_S) for run in runs]
        assert [run.returncode for run in runs] == [0, 0]
        assert results[0][0] == results[1][0]
        assert sum("from requirements.txt" in progress for _, progress in results) == 1

    def test_is_made_after_a_killed_attempt(self, checkout: Path, uv_folder: Path) -> None:
        bin_ = checkout.parent / "bin"
        began, gate = checkout.parent / "began", checkout.parent / "gate"
        put_program(bin_ / "uv", GATED_UV.format(uv=uv_folder / "uv", began=began, gate=gate))
        os.mkfifo(began)
        path = f"{bin_}{os.pathsep}{os.environ['PATH']}"
        killed = start(checkout, PATH=path)
        assert began.read_text() == "began\n"
        killed.kill()
        killed.communicate(timeout=HANG_S)
        assert not (checkout / ".venv").is_symlink()

        again = start(checkout)
        wait_for(again, "waiting")  # the orphaned installation still writes there
        gate.touch()
        out, _ = again.communicate(timeout=HANG_S)
        assert out.split()[:2] == ["1.0", str(environments(checkout)[0])]

    def test_does_not_take_the_place_of_a_users_own(self, checkout: Path) -> None:
        (checkout / ".venv").mkdir()
        run = start(checkout)
        _, message = run.communicate(timeout=HANG_S)
        assert run.returncode == 1
        assert "fix: move it away" in message
        assert (checkout / ".venv").is_dir()

    def test_a_module_in_the_current_folder_is_not_imported(self, checkout: Path) -> None:
        (checkout.parent / "nail.py").write_text("raise SystemExit('the wrong nail')\n")
        run = start(checkout)
        run.communicate(timeout=HANG_S)
        assert run.returncode == 0

    def test_an_unwritable_cache_says_what_to_set(self, checkout: Path) -> None:
        (checkout.parent / "file").touch()
        run = start(checkout, SLIPWAY_CACHE=str(checkout.parent / "file"))
        _, message = run.communicate(timeout=HANG_S)
        assert run.returncode == 1
        assert "set SLIPWAY_CACHE to a folder" in message
        assert "Traceback" not in message


def other_pythons() -> dict[str, Path]:
    """The interpreters of this machine that start Slipway without being the pinned one."""
    found = {}
    for version in ("3.9", "3.10", "3.12", "3.13", "3.14"):
        named = [shutil.which(f"python{version}")]
        versions = Path.home() / ".pyenv/versions"
        for python in [*named, *sorted(versions.glob(f"{version}.*/bin/python3"))]:
            if python and runs(python):
                found[version] = Path(python)
    return found


def runs(python: str | Path) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


OTHER_PYTHONS = other_pythons()


@pytest.mark.skipif(not OTHER_PYTHONS, reason="this machine has no other Python")
@pytest.mark.parametrize("version", OTHER_PYTHONS)
@pytest.mark.binaries
@pytest.mark.usefixtures("with_uv")
def test_another_python_goes_on_in_the_pinned_one(
    version: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = checkout.parent / "pinned" / "python3.11"
    pinned.parent.mkdir()
    pinned.symlink_to(getattr(sys, "_base_executable", sys.executable))
    monkeypatch.setenv("PATH", f"{pinned.parent}{os.pathsep}{os.environ['PATH']}")
    cold = start(checkout, "up", python=OTHER_PYTHONS[version])
    out, progress = cold.communicate(timeout=HANG_S)
    (environment,) = environments(checkout)
    assert out.split() == ["1.0", str(environment), f"{checkout}/src:{checkout}", "up"], progress
    pinned.unlink()  # a warm start needs none
    warm = start(checkout, "up", python=OTHER_PYTHONS[version])
    assert warm.communicate(timeout=HANG_S) == (out, "")


def test_everything_that_the_script_imports_is_parsed_by_python_3_9(script: ModuleType) -> None:
    needed = "errors", "environments", "interpreter", "locks", "processes", "progress"
    for name in (*needed, "requirements", "__init__"):
        file = CHECKOUT / "toolchain" / f"{name}.py"
        ast.parse(file.read_text(), feature_version=script.OLDEST)
    ast.parse((CHECKOUT / "slipway").read_text(), feature_version=(3, 6))


class TestAnotherPython:
    @pytest.fixture(autouse=True)
    def other(self, checkout: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.version_info", (3, 9, 18))
        monkeypatch.setenv("PATH", str(checkout.parent / "bin"))
        monkeypatch.setenv("SLIPWAY_CACHE", str(checkout.parent / "cache"))
        monkeypatch.setattr("sys.argv", ["slipway", "up", "--json"])
        monkeypatch.setattr(script.os, "execv", lambda _, arguments: self.went_on.append(arguments))
        self.went_on: list[list[str]] = []

    def uv(self, checkout: Path, install: str) -> None:
        """A uv of the pinned version that runs the shell text `install` for `python install`."""
        version = f'[ "$1" = --version ] && {{ echo "uv {UV_VERSION}"; exit; }}'
        put_program(checkout.parent / "bin/uv", f"#!/bin/sh\nPATH=/bin\n{version}\n{install}\n")

    def test_passes_over_a_stand_in_that_does_not_run(
        self, script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_program(checkout.parent / "bin/python3.11", "#!/bin/sh\nexit 127\n")
        real = put_program(checkout.parent / "real/python3.11", "#!/bin/sh\nexit 0\n")
        path = os.pathsep.join([os.environ["PATH"], str(real.parent)])
        monkeypatch.setenv("PATH", path)
        script.run_by_the_pinned_python()
        assert self.went_on == [[str(real), str(CHECKOUT / "slipway"), "up", "--json"]]

    def test_gets_the_pinned_one_from_uv_once(
        self, script: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        home = "$UV_PYTHON_INSTALL_DIR/cpython-3.11.14-linux-x86_64-gnu/bin"
        self.uv(
            checkout,
            f'[ "$*" = "python install --no-bin 3.11" ] && [ "$UV_PYTHON_DOWNLOADS" = manual ]'
            f' && mkdir -p "{home}" && : > "{home}/python3.11"',
        )
        script.run_by_the_pinned_python()
        assert "getting Python 3.11" in capsys.readouterr().err
        (checkout.parent / "bin/uv").unlink()
        script.run_by_the_pinned_python()
        folder = checkout.parent / "cache/python/cpython-3.11.14-linux-x86_64-gnu"
        python = str(folder / "bin/python3.11")
        assert [arguments[0] for arguments in self.went_on] == [python, python]

    def test_is_refused_with_a_sentence_where_none_can_be_downloaded(
        self, script: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.uv(checkout, "echo 'error: dns error' >&2; exit 2")
        with pytest.raises(SystemExit) as exit_:
            script.run_by_the_pinned_python()
        assert exit_.value.code == 1
        message = capsys.readouterr().err
        assert "Slipway needs Python 3.11, for which its requirements are pinned" in message
        assert message.endswith(
            "fix: install Python 3.11 beside it and run: python3.11 slipway …\n"
        )
        assert self.went_on == []


@pytest.fixture
def script() -> ModuleType:
    loader = SourceFileLoader("root_script", str(CHECKOUT / "slipway"))
    spec = importlib.util.spec_from_loader("root_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def report_a_minute(script: ModuleType) -> None:
    show = script.Progress()
    for elapsed_s in range(65):
        show("root", "installing", float(elapsed_s), f"package {elapsed_s}")
    show("root", "ready", 65.0, "")


def test_a_log_is_told_of_each_state_of_the_environment_and_every_thirty_seconds(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    report_a_minute(script)
    assert [line.rstrip() for line in capsys.readouterr().err.splitlines()] == [
        "slipway:    0 s  installing  package 0",
        "slipway:   30 s  installing  package 30",
        "slipway:   60 s  installing  package 60",
        "slipway:   65 s  ready",
    ]


def test_a_terminal_shows_the_environment_in_one_line_that_goes_away(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal(columns=30) as screen:
        with open(os.dup(screen.device), "w") as device:  # noqa: PTH123
            monkeypatch.setattr("sys.stderr", device)
            script.Progress()("root", "installing", 7.0, "a package with a long name")
            assert screen.shown == ["slipway:    7 s  installing"]
            script.say("a message")
            report_a_minute(script)
        assert screen.shown == ["slipway: a message"]
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("target", "value", "words"),
    [
        ("sys.platform", "darwin", "runs on Linux x86-64; this is darwin"),
        (
            "os.uname",
            lambda: SimpleNamespace(machine="aarch64"),
            "runs on Linux x86-64; this is linux aarch64",
        ),
        ("sys.version_info", (3, 8, 18), r"needs Python 3\.11, .*\n.*python3\.11 slipway"),
        ("sys.version_info", (3, 6, 15), r"needs Python 3\.11, .*\n.*python3\.11 slipway"),
        ("os.confstr", lambda _: "glibc 2.31", r"glibc 2\.35 or newer.*has glibc 2\.31"),
        ("os.confstr", lambda _: None, "has an unknown C library"),
    ],
)
def test_an_unsupported_machine_is_refused_with_a_sentence_and_a_fix(
    target: str,
    value: object,
    words: str,
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script.refuse_unsupported_machine()  # this machine is supported
    with monkeypatch.context() as patch:
        patch.setattr(target, value)
        with pytest.raises(SystemExit) as exit_:
            script.refuse_unsupported_machine()
    assert exit_.value.code == 1
    message = capsys.readouterr().err
    assert "\n  fix: " in message
    assert re.search(words, message)
