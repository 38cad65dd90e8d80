"""What builds leave in the cache: Go's modules, its compiled packages, and the Go that was fetched.

No tool needs them to run, and they are twice the size of everything that does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from toolchain.errors import explained
from toolchain.locks import exclusive_now
from toolchain.pins import tool_pins
from toolchain.settings import Settings
from toolchain.store import ToolStore


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
        # Renamed first: half of a module cache would fail the next build.
        trash = settings.cache / ".leftovers"
        trash.mkdir(exist_ok=True)
        for folder in [*_leftovers(settings.cache)]:
            if folder != trash:
                shutil.rmtree(trash / folder.name, ignore_errors=True)
                folder.rename(trash / folder.name)
        shutil.rmtree(trash)


def _leftovers(cache: Path) -> Iterator[Path]:
    for folder in (cache / "go", *(cache / "envs").glob("go-*/"), cache / ".leftovers"):
        if folder.is_dir():
            yield folder
