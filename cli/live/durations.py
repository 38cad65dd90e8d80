"""How long work took the last time on this machine; where that is not known, on another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from cli.live.work import BUILDING

SHIPPED = Path(__file__).with_name("shipped_durations.json")
FILE = "durations.json"  # in the cache
KEPT = 300  # the oldest are forgotten
WORTH_S = 2.0  # what ended sooner was there already, and says nothing of the next time


class Durations:
    """Seconds by key. A file that cannot be read is as good as none, and so is one that cannot be
    written: nothing depends on it but what is shown."""

    def __init__(self, file: Callable[[], Path], shipped: Path = SHIPPED) -> None:
        self._file_now = file
        self._shipped_file = shipped

    def expected_s(self, key: str) -> float | None:
        found = self._last.get(key)
        return found if found is not None else self._shipped.get(key)

    def keep(self, measured: Mapping[str, float]) -> None:
        """Atomically. Of two commands at the same time, the later one's are kept."""
        found = {key: round(took_s, 1) for key, took_s in measured.items() if took_s >= WORTH_S}
        if not found:
            return
        before = {key: took_s for key, took_s in _read(self._file).items() if key not in found}
        kept = dict([*before.items(), *found.items()][-KEPT:])
        from tempfile import NamedTemporaryFile  # noqa: PLC0415  (few runs have anything to keep)

        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(
                "w", dir=self._file.parent, prefix=f".{FILE}.", delete=False
            ) as partial:
                json.dump({"seconds": kept}, partial, indent=1)
            Path(partial.name).replace(self._file)
        self.__dict__.pop("_last", None)

    @property
    def _file(self) -> Path:
        return self._file_now()

    @cached_property
    def _last(self) -> Mapping[str, float]:
        return _read(self._file)

    @cached_property
    def _shipped(self) -> Mapping[str, float]:
        tables = json.loads(self._shipped_file.read_text())
        found = {key: took_s for table in tables for key, took_s in table["seconds"].items()}
        return _of_builds() | found


def _of_builds() -> dict[str, float]:
    """The pins have how long builds take (`build_s`)."""
    from toolchain.pins import tool_pins  # noqa: PLC0415  (most commands expect nothing)

    pins = tool_pins().items()
    return {f"{name} {BUILDING}": pin.module.build_s for name, pin in pins if pin.module}


def _read(file: Path) -> dict[str, float]:
    try:
        seconds = json.loads(file.read_text())["seconds"]
        return {str(key): float(took_s) for key, took_s in seconds.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
