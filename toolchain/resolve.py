"""From a tool's name to a binary of the pinned version on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from toolchain import archive_source, module_source, path_source, wheel_source
from toolchain.accepted import accepted_keys
from toolchain.built_instead import say_what_is_built
from toolchain.errors import ToolchainError, UnavailableError
from toolchain.lanes import side_by_side
from toolchain.locks import exclusive
from toolchain.pins import ToolPin, tool_pin
from toolchain.progress import Progress, Step, silent
from toolchain.settings import Settings
from toolchain.sources import Attempt, Obtained
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
    """What `slipway tools` shows. `source` is where a cached tool came from, else None; `proof` is
    why it can be trusted."""

    name: str
    version: str
    state: Literal["cached", "missing"]
    source: str | None
    path: Path
    proof: str | None = None


_FETCH: Mapping[str, Callable[[Attempt], Obtained]] = {
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
# Of tools that were kept before their proof was recorded.
_UNRECORDED_PROOF: Mapping[str, str] = {
    "path": path_source.PROOF,
    "wheel": wheel_source.PROOF,
    "built": module_source.PROOF,
}


def tools(
    names: Iterable[str], cache: Path, on_progress: Progress = silent
) -> dict[str, ResolvedTool]:
    """Installs every named tool, in parallel. Raises ToolchainError; nothing is half-installed."""
    settings = Settings.read(cache)
    pins = {name: tool_pin(name) for name in names}
    say_what_is_built(pins.values(), settings, on_progress)
    work = {name: partial(resolve, pin, settings) for name, pin in pins.items()}
    return side_by_side(work, on_progress)


def report(names: Iterable[str], cache: Path) -> list[ToolState]:
    """The state of each named tool; installs and runs nothing."""
    settings = Settings.read(cache)
    return [_state(tool_pin(name), settings) for name in names]


def resolve(pin: ToolPin, settings: Settings, step: Step) -> ResolvedTool:
    """Installs one tool as part of the caller's step."""
    store = ToolStore(settings.cache)
    source: Source | None = _cached(pin, settings, store, step)
    if source is None:
        with exclusive(store.lock_path(pin), step) as lock:
            source = _cached(pin, settings, store, step) or _reused(pin, settings, store, step)
            source = source or _fetch(pin, settings, store, step, lock)
    path = store.link(pin) / pin.binaries[0]
    return ResolvedTool(name=pin.name, version=pin.version, source=source, path=path)


def _state(pin: ToolPin, settings: Settings) -> ToolState:
    store = ToolStore(settings.cache)
    kept = store.in_use(pin, accepted_keys(pin, settings, store))
    return ToolState(
        name=pin.name,
        version=pin.version,
        state="cached" if kept else "missing",
        source=kept.source if kept else None,
        path=store.link(pin) / pin.binaries[0],
        proof=(kept.proof or _UNRECORDED_PROOF.get(kept.source)) if kept else None,
    )


def _cached(
    pin: ToolPin, settings: Settings, store: ToolStore, step: Step
) -> Literal["cached"] | None:
    kept = store.in_use(pin, accepted_keys(pin, settings, store))
    if kept is None:
        return None
    archive_source.record_reused(pin, kept, settings, step)
    return "cached"


def _reused(
    pin: ToolPin, settings: Settings, store: ToolStore, step: Step
) -> Literal["cached"] | None:
    reused = store.reuse(pin, accepted_keys(pin, settings, store))
    return _cached(pin, settings, store, step) if reused else None


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
                obtained = _FETCH[source](attempt)
            except UnavailableError as reason:
                reasons.append(f"{source}: {reason}")
                continue
            result = _RESULT[source]
            store.publish(
                pin,
                staging,
                source=result,
                key=obtained.key,
                proof=obtained.proof,
                archive=obtained.archive,
            )
            return result
    raise ToolchainError(
        f"{pin.name} {pin.version} could not be installed: {'; '.join(reasons)}",
        fix=f"put {pin.name} {pin.version} on PATH; docs/tools.md has the other ways",
    )
