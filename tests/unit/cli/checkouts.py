"""A test's own copy of the checkout, and the real `slipway` command on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.unit.cli.addresses import DEV_NETWORK

ROOT = Path(__file__).parents[3]
LEFT_OUT = (".*", "bench", "docs", "tests")

Edit = Callable[[str, str, str], int]


def copy_checkout(folder: Path) -> None:
    """Without the tests, in a network of its own."""
    unused = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(ROOT, folder, symlinks=True, ignore=unused)
    stack = folder / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text().replace("127.77.0.", f"{DEV_NETWORK}."))


def replace_text(path: Path, old: str, new: str) -> int:
    """Replaces a text that must exist; returns its line."""
    text = path.read_text()
    assert old in text, f"{path} has no {old!r} to replace"
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def slipway(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line of `checkout` as its launcher does, without any cache to begin with."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "cli", *arguments],
        cwd=checkout,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(checkout.parent),
            "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}",
            "SLIPWAY_CACHE": str(checkout.parent / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",  # what it needs was copied
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def files(checkout: Path) -> dict[str, tuple[int, int]]:
    """Everything in the checkout and beside it, except byte code: which file it is, and when it
    last changed in any way."""
    entries = _tree(str(checkout.parent))
    return {entry.path: _changed(entry) for entry in entries if not _is_folder(entry)}


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of the checkout as it was made: `files`, their contents, and its folders."""

    folder: Path
    files: dict[str, tuple[int, int]]
    contents: dict[str, bytes]
    folders: frozenset[str]


def make_copy(folder: Path) -> Copied:
    copy_checkout(folder)
    entries = list(_tree(str(folder.parent)))
    return Copied(
        folder=folder,
        files=files(folder),
        contents={entry.path: _content(entry) for entry in entries if not _is_folder(entry)},
        folders=frozenset(entry.path for entry in entries if _is_folder(entry)),
    )


def restore(copy: Copied) -> None:
    """Restores all files, also those beside the copy; folders created since are removed."""
    for entry in list(_tree(str(copy.folder.parent))):
        if _is_folder(entry):
            if entry.path not in copy.folders:
                shutil.rmtree(entry)  # only byte code is left in it
        elif copy.files.get(entry.path) != _changed(entry):
            Path(entry).unlink()
    for path, content in copy.contents.items():
        if not os.path.lexists(path):
            Path(path).write_bytes(content)


def _changed(entry: os.DirEntry[str]) -> tuple[int, int]:
    found = entry.stat(follow_symlinks=False)
    return found.st_ino, found.st_ctime_ns


def _content(entry: os.DirEntry[str]) -> bytes:
    """Of a link, where it leads."""
    path = Path(entry)
    return os.fsencode(path.readlink()) if entry.is_symlink() else path.read_bytes()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _tree(folder: str) -> Iterator[os.DirEntry[str]]:
    """Every path below, a folder after what is in it. Without byte code."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_folder(entry):
                if entry.name == "__pycache__":
                    continue
                yield from _tree(entry.path)
            yield entry
