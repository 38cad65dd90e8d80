"""What hosts run is pinned and written for each Python that they may have."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.hosts.artifacts import OF_ONE_PYTHON
from components.hosts.delivery import OTHER_PYTHONS, PYTHON
from slipway.config.artifacts import REQUIREMENTS, bundle_files
from slipway.planner.engines.registry import ENGINES
from tests.components.test_cuda_requirements import pins
from toolchain.environments import HOST_PLATFORM, find_uv, uv_environment
from toolchain.progress import Step, silent
from toolchain.requirements import digest, for_python
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
FITNESS = ROOT / "services/operator/delivery/fitness.py"
ON_ANY = sorted(REQUIREMENTS.keys() - set(OF_ONE_PYTHON))
FILES = {name: ROOT / REQUIREMENTS[name] for name in ON_ANY}
# Of tritonclient, whose messages are all that is used of it.
LEFT_OUT = {"ml-dtypes", "numpy", "python-rapidjson", "urllib3"}
OLDEST = "3.10"
# Service -> what of it no host runs, or only the engine's Python.
NOT_CHECKED = {
    "devices": "tests",
    "engine_sim": "tests",
    "host": "tests",
    "triton_vllm": "tests|engine_(server|fork|imports)",
    "xds": "tests",
}
# Names and arguments that a version does not have, and what it cannot parse; the rest is not about
# versions.
ABOUT_VERSIONS = re.compile(r".*\[(?:attr-defined|name-defined|call-arg|call-overload|syntax)\]$")


def constant(name: str) -> Any:
    """Of services/operator, which may import nothing of the rest."""
    for node in ast.parse(FITNESS.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{FITNESS} has no {name}")


def test_the_delivery_refuses_what_nothing_is_made_for() -> None:
    of_environments = ".".join(map(str, PYTHON))
    assert set(constant("PYTHONS")) == {of_environments, *OTHER_PYTHONS}
    assert constant("ENGINES") == OF_ONE_PYTHON
    oldest_glibc = re.search(r"^OLDEST_GLIBC = \((\d+), (\d+)\)", FITNESS.read_text(), re.MULTILINE)
    assert oldest_glibc is not None
    assert f"x86_64-manylinux_{oldest_glibc[1]}_{oldest_glibc[2]}" == HOST_PLATFORM


def test_environments_of_engines_are_of_one_python() -> None:
    """Others are those of a simulated one, and of the step that fetches weights."""
    of_engines = {name for engine in ENGINES.values() for name in engine.environments}
    assert of_engines - set(OF_ONE_PYTHON) == {"engine_sim", "weights"}


@pytest.mark.parametrize("name", ON_ANY)
def test_pins_for_another_python_name_the_file_that_they_go_with(name: str) -> None:
    """Hosts know an environment by that file's digest: see the head of each."""
    for python in OTHER_PYTHONS:
        file = for_python(FILES[name], python)
        if file != FILES[name]:
            head = "".join(line for line in file.read_text().splitlines(True) if line[0] == "#")
            assert f"digest, {digest(FILES[name])}, so" in head


@pytest.mark.binaries
@pytest.mark.parametrize("name", ON_ANY)
def test_the_pins_for_the_oldest_python_fit_together_and_have_wheels(
    tmp_path: Path, name: str
) -> None:
    """Resolved as a whole, they ask for nothing else and for no other version."""
    cache, resolved = default_cache(), tmp_path / "resolved.txt"
    file = for_python(FILES[name], OLDEST)
    subprocess.run(
        [
            find_uv(cache, Step("uv", silent)),
            *("pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *("--python-version", OLDEST, "--python-platform", HOST_PLATFORM),
            *("--only-binary", ":all:", file, "-o", resolved),
        ],
        env=uv_environment(cache),
        cwd=tmp_path,
        check=True,
    )
    found, pinned = pins(resolved.read_text()), pins(file.read_text())
    left_out = LEFT_OUT if "tritonclient" in pinned else set[str]()
    assert {each: found[each] for each in found.keys() - left_out} == pinned


@pytest.mark.thorough
@pytest.mark.parametrize("service", NOT_CHECKED)
def test_what_is_newer_than_the_oldest_python_is_not_used(service: str) -> None:
    """As the types of the standard library know its versions."""
    command: list[str | Path] = [
        *(sys.executable, "-m", "mypy", "--config-file=", "--python-version", OLDEST, "."),
        *("--ignore-missing-imports", "--check-untyped-defs", "--exclude", NOT_CHECKED[service]),
        *("--cache-dir", default_cache() / "mypy" / service),
    ]
    folder = ROOT / "services" / service
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "checked" in done.stdout or "no issues" in done.stdout, done.stdout
    assert [line for line in done.stdout.splitlines() if ABOUT_VERSIONS.fullmatch(line)] == []


@pytest.mark.parametrize("service", NOT_CHECKED)
def test_waits_name_asyncios_own_error(service: str) -> None:
    """Python 3.10 has two: what asyncio and aiohttp raise there is not the built-in one."""
    wrong = [
        f"{file}: {line.strip()}"
        for file in bundle_files(ROOT, service)
        if file.suffix == ".py"
        and re.search(r"^import (asyncio|aiohttp)$", text := read(service, file), re.MULTILINE)
        for line in text.splitlines()
        if re.search(r"(except|suppress|retry).*[ (]TimeoutError", line)
    ]
    assert wrong == []


def read(service: str, file: Path) -> str:
    return (ROOT / "services" / service / file).read_text()
