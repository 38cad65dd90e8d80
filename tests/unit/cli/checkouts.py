"""A test's own copy of the checkout, and the real `slipway` command on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.unit.cli.addresses import DEV_NETWORK

ROOT = Path(__file__).parents[3]
LEFT_OUT = (".*", "bench", "docs", "tests")

Edit = Callable[[str, str, str], int]


def copy_checkout(folder: Path) -> None:
    """Without the tests, in a network of its own."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    stack = folder / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text().replace("127.77.0.", f"{DEV_NETWORK}."))


def replace_text(path: Path, old: str, new: str) -> int:
    """Replaces a text that must exist; returns its line."""
    text = path.read_text()
    assert old in text, f"{path} has no {old!r} to replace"
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def slipway(
    checkout: Path, *arguments: str, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command line of `checkout` as its launcher does, without any cache to begin with."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "slipway.cli", *arguments],
        cwd=checkout,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(checkout.parent),
            "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}",
            "SLIPWAY_CACHE": str(cache or checkout.parent / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",  # what it needs was copied
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def files(checkout: Path) -> dict[str, bytes]:
    """Everything in the checkout and beside it, except byte code."""
    paths = (path for path, _ in _tree(checkout.parent))
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def restore(checkout: Path, before: Mapping[str, bytes]) -> None:
    """Restores `files` to their state `before`; folders created since are removed."""
    folders = {
        parent
        for folder in {Path(path).parent for path in before}
        for parent in (folder, *folder.parents)
    }
    for path, is_folder in _tree(checkout.parent):
        if path.is_symlink() or not (is_folder or str(path) in before):
            path.unlink()
        elif is_folder and path not in folders:
            path.rmdir()
    now = files(checkout)
    for name, content in before.items():
        if now.get(name) != content:
            Path(name).write_bytes(content)


def _tree(root: Path) -> Iterator[tuple[Path, bool]]:
    """Every path below, a folder after what is in it, and whether it is a folder. Without byte
    code."""
    found: list[tuple[Path, bool]] = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [(Path(place, name), True) for name in folders]
        found += [(Path(place, name), False) for name in names]
    return reversed(found)
