"""The line about vendors that do not answer, whose tools are therefore built."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from toolchain import path_source
from toolchain.accepted import accepted_keys
from toolchain.errors import UnavailableError
from toolchain.pins import ToolPin
from toolchain.progress import Progress, Step, silent
from toolchain.settings import Settings
from toolchain.store import ToolStore


def say_what_is_built(
    pins: Iterable[ToolPin], settings: Settings, on_progress: Progress = silent
) -> None:
    """Reports, in one line, which tools are built because their vendors do not answer, and how long
    that takes. Asks nobody where every tool is here."""
    if settings.mirror or not {"archive", "module"} <= set(settings.sources):
        return
    step, silent_hosts, built = Step("archives", on_progress), set[str](), list[ToolPin]()
    for pin in pins:
        if pin.archive and pin.module and not _is_here(pin, settings):
            hosts = settings.vendors.silent(pin.archive)
            silent_hosts.update(hosts)
            built += [pin] if hosts else []
    if built:
        minutes = math.ceil(sum(pin.module.build_s for pin in built if pin.module) / 60)
        step.enter(
            "failed",
            f"no answer from {_listed(sorted(silent_hosts))}; {_listed([p.name for p in built])} "
            f"are built here, in about {minutes} min on two cores",
        )


def _is_here(pin: ToolPin, settings: Settings) -> bool:
    """Whether the tool is kept, or on PATH, perhaps in another version."""
    store = ToolStore(settings.cache)
    if store.kept(pin, accepted_keys(pin, settings, store)):
        return True
    try:
        path_source.find(pin, settings.path, settings.cache)
    except UnavailableError:
        return False
    return "path" in settings.sources


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
