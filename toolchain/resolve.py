"""From a tool's name to a binary of the pinned version on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from toolchain import archive_source, module_source, path_source, wheel_source
from toolchain.errors import ToolchainError, UnavailableError
from toolchain.lanes import side_by_side
from toolchain.locks import exclusive
from toolchain.pins import ToolPin, tool_pin
from toolchain.progress import Progress, Step, silent
from toolchain.settings import Settings
from toolchain.sources import Attempt
from toolchain.store import ToolStore

Source = Literal["path", "archive", "built", "wheel", "cached"]


@dataclass(frozen=True, kw_only=True)
class ResolvedTool:
    """A usable tool. `path` is its main program under the stable folder name."""

    name: str
    version: str
    source: Source
    path: Path


@dataclass(frozen=True, kw_only=True)
class ToolState:
    """What `slipway tools` shows. `source` is where a cached tool came from, else None."""

    name: str
    version: str
    state: Literal["cached", "missing"]
    source: str | None
    path: Path


_FETCH: Mapping[str, Callable[[Attempt], str]] = {
    "path": path_source.fetch,
    "archive": archive_source.fetch,
    "wheel": wheel_source.fetch,
    "module": module_source.fetch,
}
_RESULT: Mapping[str, Source] = {
    "path": "path",
    "archive": "archive",
    "wheel": "wheel",
    "module": "built",
}


def tools(
    names: Iterable[str], cache: Path, on_progress: Progress = silent
) -> dict[str, ResolvedTool]:
    """Installs every named tool, in parallel. Raises ToolchainError; nothing is half-installed."""
    settings = Settings.read(cache)
    work = {name: partial(resolve, tool_pin(name), settings) for name in names}
    return side_by_side(work, on_progress)


def report(names: Iterable[str], cache: Path) -> list[ToolState]:
    """The state of each named tool; installs and runs nothing."""
    settings = Settings.read(cache)
    return [_state(tool_pin(name), settings) for name in names]


def resolve(pin: ToolPin, settings: Settings, step: Step) -> ResolvedTool:
    """Installs one tool as part of the caller's step."""
    store = ToolStore(settings.cache)
    source: Source | None = _cached(pin, settings, store)
    if source is None:
        with exclusive(store.lock_path(pin), step) as lock:
            source = _cached(pin, settings, store) or _reused(pin, settings, store)
            source = source or _fetch(pin, settings, store, step, lock)
    path = store.link(pin) / pin.binaries[0]
    return ResolvedTool(name=pin.name, version=pin.version, source=source, path=path)


def _state(pin: ToolPin, settings: Settings) -> ToolState:
    store = ToolStore(settings.cache)
    source = store.cached_source(pin, _accepted_keys(pin, settings))
    return ToolState(
        name=pin.name,
        version=pin.version,
        state="cached" if source else "missing",
        source=source,
        path=store.link(pin) / pin.binaries[0],
    )


def _cached(pin: ToolPin, settings: Settings, store: ToolStore) -> Literal["cached"] | None:
    return "cached" if store.cached_source(pin, _accepted_keys(pin, settings)) else None


def _reused(pin: ToolPin, settings: Settings, store: ToolStore) -> Literal["cached"] | None:
    return "cached" if store.reuse(pin, _accepted_keys(pin, settings)) else None


def _accepted_keys(pin: ToolPin, settings: Settings) -> frozenset[str]:
    """The keys that the current pins and settings can produce: others are out of date."""
    keys: set[str] = set()
    for source in settings.sources:
        try:
            keys.add(_key(source, pin, settings))
        except UnavailableError:
            continue
    return frozenset(keys)


def _key(source: str, pin: ToolPin, settings: Settings) -> str:
    if source == "path":
        return path_source.key(path_source.find(pin, settings.path, settings.cache))
    if source == "archive" and pin.archive is not None:
        return archive_source.key(archive_source.checksum(pin.archive, settings))
    if source == "wheel" and pin.wheel is not None:
        return pin.wheel.key
    if source == "module" and pin.module is not None:
        return pin.module.key
    raise UnavailableError(f"no {source} is pinned")


def _fetch(pin: ToolPin, settings: Settings, store: ToolStore, step: Step, lock: int) -> Source:
    reasons = []
    for source in settings.sources:
        with store.staging(pin) as staging:
            attempt = Attempt(
                pin=pin,
                settings=settings,
                staging=staging,
                step=step,
                lock=lock,
                log=store.log_path(pin),
            )
            try:
                key = _FETCH[source](attempt)
            except UnavailableError as reason:
                reasons.append(f"{source}: {reason}")
                continue
            store.publish(pin, staging, source=_RESULT[source], key=key)
            return _RESULT[source]
    raise ToolchainError(
        f"{pin.name} {pin.version} could not be installed: {'; '.join(reasons)}",
        fix=f"put {pin.name} {pin.version} on PATH; docs/tools.md has the other ways",
    )
