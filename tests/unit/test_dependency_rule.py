"""The arrows of docs/architecture.md, read from the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# folder or module -> the packages of this project it may import, besides its own
ALLOWED = {
    "src/slipway": set[str](),
    "src/slipway/plan": set[str](),
    "src/slipway/config": set[str](),
    "src/slipway/architectures": {"slipway.config"},
    "src/slipway/certificates": {"slipway.config", "slipway.plan"},
    "src/slipway/inputs.py": {"slipway.architectures", "slipway.certificates", "slipway.config"},
    "src/slipway/diff": set[str](),
    "src/slipway/planner": {
        "slipway.architectures",
        "slipway.config",
        "slipway.inputs",
        "slipway.plan",
    },
    "src/slipway/scaffold": {
        "slipway.architectures",
        "slipway.config",
        "slipway.inputs",
        "slipway.plan",
        "slipway.planner",
    },
    "components": {"slipway.plan"},
    "stacks": {"slipway.inputs", "slipway.plan", "slipway.planner", "components"},
    "cli": {"slipway", "stacks", "components", "toolchain"},
    "services": set[str](),
    "toolchain": set[str](),
    "policies": set[str](),
}
PROJECT_PACKAGES = ("slipway", "components", "stacks", "cli", "toolchain", "policies")
# Components, and the realisations of protocols that make resources.
MAY_IMPORT_PULUMI = (
    "component.py",
    "components/base.py",
    "components/gossip.py",
    "components/servers.py",
    "components/hosts/local.py",
    "components/hosts/program.py",
    "components/hosts/ssh.py",
    "components/node_pool/elastic.py",
    "components/serving/consul.py",
    "components/serving/nomad.py",
)


def python_files(folder: str) -> Iterator[Path]:
    place = ROOT / folder
    for path in [place] if place.suffix else sorted(place.rglob("*.py")):
        if "tests" not in path.relative_to(ROOT).parts:
            yield path


@cache
def imports(path: Path) -> frozenset[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return frozenset(found)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_a_folder_imports_only_what_the_rule_allows(folder: str) -> None:
    own = folder.removeprefix("src/").removesuffix(".py").replace("/", ".")
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in python_files(folder)
        for module in sorted(imports(path))
        if any(within(module, package) for package in PROJECT_PACKAGES)
        and not any(within(module, package) for package in ALLOWED[folder] | {own})
    ]
    assert wrong == []


def test_only_components_stacks_and_the_program_import_pulumi() -> None:
    wrong = []
    for folder in ("src", "cli", "components", "services"):
        for path in python_files(folder):
            name = str(path.relative_to(ROOT))
            allowed = any(name.endswith(part) or part in name for part in MAY_IMPORT_PULUMI)
            if not allowed and any(
                module.split(".")[0].startswith("pulumi") for module in imports(path)
            ):
                wrong.append(name)
    assert wrong == []


def resolved_imports(path: Path) -> Iterator[str]:
    """Those that are written relative to a package of src/ too."""
    yield from imports(path)
    package = path.relative_to(ROOT / "src").with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield ".".join([*package[: -node.level], *filter(None, [node.module])])


def test_only_the_registry_imports_the_folder_of_an_engine() -> None:
    folder = ROOT / "src/slipway/planner/engines"
    engines = {path.parent.name for path in folder.glob("*/adapter.py")}
    found = {
        (str(path.relative_to(ROOT / "src/slipway/planner")), engine)
        for path in python_files("src")
        for module in resolved_imports(path)
        for engine in engines
        if within(module, f"slipway.planner.engines.{engine}")
        and not path.is_relative_to(folder / engine)
    }
    assert found == {("engines/registry.py", engine) for engine in engines}
    assert not any(
        within(module, f"slipway.planner.engines.{engine}")
        for above in ("cli", "components", "stacks")
        for path in python_files(above)
        for module in imports(path)
        for engine in engines
    )


def test_the_rule_sees_imports_at_all() -> None:
    assert "slipway.plan.platform" in imports(ROOT / "components/serving/nomad_job.py")
