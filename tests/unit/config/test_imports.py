"""What a bundle holds of the package that services share, and that it is enough."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.config.artifacts import SHARED, SHARING, bundle_files
from slipway.config.imports import imported_modules

ROOT = Path(__file__).parents[3]
# Scripts that need packages of an environment that this one is not.
NEED_PACKAGES = {
    "device_plugin",
    "engine_fork",
    "engine_imports",
    "engine_progress",
    "engine_sim",
    "launcher",
}
COPIED = "backend"  # Triton's model, which runs from a folder of its own


def modules_named(file: Path) -> Iterator[Path]:
    """Where the modules of its import statements would be, by Python's own parser."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            path = Path(*node.module.split("."))
            yield path.with_suffix(".py")
            yield from ((path / alias.name).with_suffix(".py") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (Path(*alias.name.split(".")).with_suffix(".py") for alias in node.names)


@pytest.mark.parametrize("service", SHARING)
def test_a_bundle_is_what_its_scripts_import_and_no_more(service: str) -> None:
    folder = ROOT / "services" / service
    reached = set[Path]()
    unread = [path.relative_to(folder) for path in folder.glob("*.py")]
    while unread:
        file = unread.pop()
        if file not in reached and (folder / file).is_file():
            reached.add(file)
            unread += modules_named(folder / file)
    files = (path for path in bundle_files(ROOT, service) if path.suffix == ".py")
    imported = (path for path in files if path.parts[0] != COPIED)
    assert {path for path in imported if path.name != "__init__.py"} == reached


@pytest.mark.parametrize("service", SHARING)
def test_every_script_starts_from_its_bundle_alone(service: str, tmp_path: Path) -> None:
    for path in bundle_files(ROOT, service):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "services" / service / path, tmp_path / path)
    scripts = sorted({path.stem for path in tmp_path.glob("*.py")} - NEED_PACKAGES)
    imports = "\n".join(f"import {script}" for script in scripts)
    subprocess.run(
        [
            sys.executable,
            "-I",
            "-B",
            "-c",
            f"import sys\nsys.path[0] = {str(tmp_path)!r}\n{imports}",
        ],
        check=True,
    )


def test_modules_are_found_in_every_form_of_import(tmp_path: Path) -> None:
    names = ("__init__", "plain", "named", "wrapped", "late", "deep", "unused")
    (tmp_path / SHARED).mkdir()
    for name in names:
        (tmp_path / SHARED / f"{name}.py").write_text("")
    (tmp_path / SHARED / "named.py").write_text(f"from {SHARED}.deep import x\n")
    (tmp_path / "main.py").write_text(
        f"import {SHARED}.plain\n"
        f"from {SHARED} import named\n"
        f"from {SHARED} import (\n    wrapped,\n)\n"
        f"def f():\n    from {SHARED}.late import x\n"
    )
    found = imported_modules(tmp_path, SHARED, [Path("main.py")])
    wanted = [name for name in names if name != "unused"]
    assert found == {Path(SHARED, f"{name}.py") for name in wanted}
