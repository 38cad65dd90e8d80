"""The digest that names a Python environment: of what it gets, not of what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.config.artifacts import REQUIREMENTS, requirements_digest
from tests.unit.plan.samples import ROOT
from toolchain.requirements import digest, for_python

PINS = "aiohttp==3.14.5\nsupervisor==4.3.0\n"
BUILT = "nail @ file:///wheels/nail-1.0-py3-none-any.whl#sha256=00\n"


def digests(folder: Path, text: str) -> set[str]:
    """Of the toolchain, which names the folder, and of the plan, which names the same folder."""
    path = folder / REQUIREMENTS["node"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {digest(path), requirements_digest(folder, "node")}


@pytest.mark.parametrize(
    "commented",
    [
        f"# What a host needs.\n{PINS}",
        f"{PINS}\n  # the end\n",
        "aiohttp==3.14.5\n    # via supervisor\n\nsupervisor==4.3.0  # the last one\n",
        PINS.removesuffix("\n"),
    ],
)
def test_comments_and_blank_lines_change_nothing(tmp_path: Path, commented: str) -> None:
    (before,) = digests(tmp_path, PINS)
    assert digests(tmp_path, commented) == {before}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (PINS, PINS.replace("3.14.5", "3.14.6")),
        (PINS, PINS.removeprefix("aiohttp==3.14.5\n")),
        (PINS, f"--index-url https://index.example.test\n{PINS}"),
        (BUILT, BUILT.replace("sha256=00", "sha256=01")),  # a # within a URL is no comment
    ],
)
def test_every_requirement_counts(tmp_path: Path, text: str, changed: str) -> None:
    (before,), (after,) = digests(tmp_path, text), digests(tmp_path, changed)
    assert before != after


@pytest.mark.parametrize("name", sorted(REQUIREMENTS))
def test_a_plan_names_the_folder_that_the_toolchain_makes(name: str) -> None:
    assert requirements_digest(ROOT, name) == digest(ROOT / REQUIREMENTS[name])


def test_another_python_has_the_pins_of_its_own_file_if_there_is_one(tmp_path: Path) -> None:
    requirements, own = tmp_path / "requirements.txt", tmp_path / "requirements-3.10.txt"
    assert for_python(requirements, "3.10") == requirements
    own.write_text(PINS)
    assert for_python(requirements, "3.10") == own
    assert for_python(requirements, "3.12") == requirements
