"""What the cache holds and nothing runs: Go's modules, its compiled packages and the Go that was
fetched; the packages that weights came in; and libraries that only a GPU opens.

They are twice the size of everything that runs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from toolchain.errors import explained
from toolchain.locks import exclusive_now
from toolchain.pins import tool_pins
from toolchain.settings import Settings
from toolchain.store import ToolStore
from toolchain.unused_libraries import forgotten_by_uv, unused_libraries


def has_build_leftovers(settings: Settings) -> bool:
    """Whether there is anything that the user does not keep."""
    return not settings.keep_builds and any(_leftovers(settings.cache))


def remove_build_leftovers(settings: Settings) -> None:
    """Leaves everything as it is while another run makes a tool."""
    store = ToolStore(settings.cache)
    with explained(settings.cache), ExitStack() as held:
        locks = (store.lock_path(pin) for pin in tool_pins().values())
        if not all(held.enter_context(exclusive_now(lock)) for lock in locks):
            return
        found = [*_of_builds(settings.cache), *_packages_of_weights(settings.cache)]
        libraries = [*unused_libraries(settings.cache)]
        if libraries and forgotten_by_uv(settings.cache):
            found += libraries
        # Renamed first: half of a module cache would fail the next build.
        trash = settings.cache / ".leftovers"
        trash.mkdir(exist_ok=True)
        for path in found:
            path.rename(Path(tempfile.mkdtemp(dir=trash)) / path.name)
        shutil.rmtree(trash)


def _leftovers(cache: Path) -> Iterator[Path]:
    yield from (path for path in [cache / ".leftovers"] if path.is_dir())
    yield from _of_builds(cache)
    yield from _packages_of_weights(cache)
    yield from unused_libraries(cache)


def _of_builds(cache: Path) -> Iterator[Path]:
    folders = (cache / "go", *(cache / "envs").glob("go-*/"))
    return (folder for folder in folders if folder.is_dir())


def _packages_of_weights(cache: Path) -> Iterator[Path]:
    """Beside uv's; services/triton_vllm downloads them again for other weights of a package."""
    return (cache / "downloads").glob("[!.]*==*/")
