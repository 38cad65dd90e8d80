"""Links in the documentation lead somewhere, and the files that it names exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.environment import CHECKOUT

FOLDERS = (
    *("bench", "cli", "components", "docs", "policies", "schemas", "services", "src", "stacks"),
    *("tests", "toolchain", ".ci", ".github"),
)
# A page may leave out the beginning of a path that it names often.
ROOTS = (CHECKOUT, CHECKOUT / "src/slipway", CHECKOUT / "cli", CHECKOUT / "docs")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.(?:md|py|schema\.json)\b")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
EXAMPLE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def files(folder: str) -> Iterator[Path]:
    """All files of a folder but those in hidden ones, which are environments and caches."""
    for path, folders, names in os.walk(CHECKOUT / folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        yield from (Path(path, name) for name in names)


def named(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


PAGES = [
    CHECKOUT / "README.md",
    *(file for folder in FOLDERS for file in files(folder) if file.suffix == ".md"),
]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert [path for path in own_paths(page) if not exists(page, path)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_that_code_names_exist(folder: str) -> None:
    readme = CHECKOUT / "README.md"
    assert [page for page in pages_of_code(folder) if not leads_somewhere(readme, page)] == []


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(without_examples(page)):
        if "://" not in target:
            yield target


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, heading = target.partition("#")
    other = page.parent / path if path else page
    return other.exists() and (not heading or heading in anchors(other))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    texts = HEADING.findall(without_examples(page))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def own_paths(page: Path) -> Iterator[str]:
    """The paths that begin with a folder of this project; others are those of another one."""
    for path in PATH.findall(without_examples(page)):
        if exists(page, path.partition("/")[0]):
            yield path


def exists(page: Path, path: str) -> bool:
    return any((root / path).exists() for root in (*ROOTS, page.parent))


def without_examples(page: Path) -> str:
    return EXAMPLE.sub("", page.read_text())


def pages_of_code(folder: str) -> Iterator[str]:
    for file in files(folder):
        if file.suffix in (".py", ".yml", ".yaml", ""):
            yield from PAGE.findall(file.read_text())
