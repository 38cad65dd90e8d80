"""Which of the tools in the cache the pins and settings of today still accept."""

from __future__ import annotations

from toolchain import archive_source, path_source
from toolchain.archive_proof import is_proven, known_sha256
from toolchain.errors import UnavailableError
from toolchain.pins import ArchivePin, ToolPin
from toolchain.settings import Settings
from toolchain.store import ToolStore


def accepted_keys(pin: ToolPin, settings: Settings, store: ToolStore) -> frozenset[str]:
    """The keys that the current pins and settings can produce: others are out of date."""
    return frozenset[str]().union(*(_keys(each, pin, settings, store) for each in settings.sources))


def _keys(source: str, pin: ToolPin, settings: Settings, store: ToolStore) -> frozenset[str]:
    if source == "path":
        try:
            found = path_source.find(pin, settings.path, settings.cache)
        except UnavailableError:
            return frozenset()
        return frozenset({path_source.key(found)})
    if source == "archive" and pin.archive is not None:
        return _archive_keys(pin, pin.archive, settings, store)
    if source == "wheel" and pin.wheel is not None:
        return frozenset({pin.wheel.key})
    if source == "module" and pin.module is not None:
        return frozenset({pin.module.key})
    return frozenset()


def _archive_keys(
    pin: ToolPin, archive: ArchivePin, settings: Settings, store: ToolStore
) -> frozenset[str]:
    """Where this checkout does not know the sum yet, another one may have proven the archive."""
    sha256, kept = known_sha256(archive, settings), store.archives(pin)
    if sha256 is None:
        return frozenset(key for key, each in kept.items() if is_proven(archive, each, settings))
    key = archive_source.key(sha256)
    # An archive of an older cache has no origin: it was proven by this very sum.
    return frozenset({key}) if key not in kept or kept[key].sha256 == sha256 else frozenset()
