from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.toolchain.stand_ins import put_program
from tests.unit.toolchain.wheels import put_wheel
from toolchain import environments
from toolchain.environments import base_python, ensure_environment, install_packages
from toolchain.errors import ToolchainError
from toolchain.progress import Step, silent

pytestmark = [pytest.mark.binaries, pytest.mark.usefixtures("with_uv")]


def nail_version(target: Path) -> str:
    done = subprocess.run(
        [target / "bin/python", "-c", "import nail; print(nail.VERSION)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_an_environment_holds_what_the_file_pins(tmp_path: Path) -> None:
    target = tmp_path / "cache/envs/nail-1"
    states = []
    ensure_environment(
        put_wheel(tmp_path), target, lambda _name, state, _elapsed, _detail: states.append(state)
    )
    assert nail_version(target) == "1.0"
    assert states[0] == "installing"
    assert states[-1] == "ready"


def test_a_complete_environment_is_left_alone(tmp_path: Path) -> None:
    requirements, target = put_wheel(tmp_path), tmp_path / "cache/envs/nail-1"
    ensure_environment(requirements, target, silent)
    (target / "mine").touch()
    ensure_environment(requirements, target, silent)
    assert (target / "mine").exists()


def test_an_environment_without_its_marker_is_made_anew(tmp_path: Path) -> None:
    requirements, target = put_wheel(tmp_path), tmp_path / "cache/envs/nail-1"
    (target / "bin").mkdir(parents=True)
    (target / "left over").touch()
    ensure_environment(requirements, target, silent)
    assert nail_version(target) == "1.0"
    assert not (target / "left over").exists()


def test_changed_requirements_under_the_same_name_are_installed(tmp_path: Path) -> None:
    target = tmp_path / "cache/envs/nail"
    ensure_environment(put_wheel(tmp_path), target, silent)
    ensure_environment(put_wheel(tmp_path, version="2.0"), target, silent)
    assert nail_version(target) == "2.0"


def test_an_environment_whose_interpreter_is_gone_is_made_anew(tmp_path: Path) -> None:
    requirements, target = put_wheel(tmp_path), tmp_path / "cache/envs/nail-1"
    ensure_environment(requirements, target, silent)
    (target / "bin/python").unlink()
    (target / "bin/python").symlink_to(tmp_path / "no-such-python")
    ensure_environment(requirements, target, silent)
    assert nail_version(target) == "1.0"


def packages(target: Path, python: str) -> str:
    return (target / f"lib/python{python}/site-packages/nail.py").read_text()


def test_packages_for_another_python_need_no_interpreter_of_it(tmp_path: Path) -> None:
    requirements, target = put_wheel(tmp_path, others=("bin/hammer",)), tmp_path / "cache/envs/nail"
    step = Step("nail", silent)
    install_packages(requirements, "3.10", target, step)
    assert packages(target, "3.10") == 'VERSION = "1.0"\n'
    assert not (target / "bin").exists()
    assert not (target / "lib/python3.10/site-packages/bin").exists()
    (target / "mine").touch()
    install_packages(requirements, "3.10", target, step)
    assert (target / "mine").exists(), "what is complete is left alone"
    install_packages(put_wheel(tmp_path, version="2.0"), "3.10", target, step)
    assert packages(target, "3.10") == 'VERSION = "2.0"\n'
    assert not (target / "mine").exists()


def test_packages_that_cannot_be_had_leave_nothing(tmp_path: Path) -> None:
    requirements, target = tmp_path / "requirements.txt", tmp_path / "cache/envs/nail"
    requirements.write_text(f"nail @ file://{tmp_path}/nail-9.9-py3-none-any.whl\n")
    with pytest.raises(ToolchainError, match=r"installing .*requirements\.txt failed"):
        install_packages(requirements, "3.10", target, Step("nail", silent))
    assert not target.exists()


def test_a_failed_install_shows_why_and_leaves_no_environment(tmp_path: Path) -> None:
    requirements, target = tmp_path / "requirements.txt", tmp_path / "cache/envs/nail-1"
    requirements.write_text(f"nail @ file://{tmp_path}/nail-9.9-py3-none-any.whl\n")
    with pytest.raises(ToolchainError, match=r"installing .*requirements\.txt failed") as failure:
        ensure_environment(requirements, target, silent)
    assert "nail-9.9" in failure.value.message
    assert not target.exists()


def test_a_uv_of_another_version_on_path_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(tmp_path / "bin/uv", "#!/bin/sh\necho uv 0.0.1\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    own = tmp_path / f"cache/envs/uv-{environments.UV_VERSION}"
    own.mkdir(parents=True)
    (own / ".complete").touch()
    found = environments.find_uv(tmp_path / "cache", Step("uv", silent))
    assert found == own / "bin/uv"


def test_pips_index_reaches_uv_unless_uv_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.test/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    env = environments.uv_environment(tmp_path)
    assert env["UV_DEFAULT_INDEX"] == "https://index.example.test/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv.example.test/simple")
    env = environments.uv_environment(tmp_path)
    assert env["UV_DEFAULT_INDEX"] == "https://uv.example.test/simple"


def test_the_base_interpreter_is_not_this_environments() -> None:
    assert base_python().is_file()
    assert not base_python().is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix
