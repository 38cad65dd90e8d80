"""Follows the accelerators of this host, and says which of them tasks can be given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from accelerators import kinds
from accelerators.driver import (
    Accelerator,
    Driver,
    DriverGoneError,
    Figures,
    Observation,
    Signal,
    State,
)

from health.record import Record
from health.verdicts import Verdict, judge


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`faults` say why an accelerator is unhealthy, `warnings` what else there is to look at."""

    accelerator: Accelerator
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Known:
    """All accelerators that were there since the boot. `version` grows with each change of the
    standings; the figures are those of the last look."""

    version: int = 0
    standings: tuple[Standing, ...] = ()
    figures: Mapping[str, Figures] = field(default_factory=dict)  # by UUID


class Watch:
    """Only one thread may call `look` and `listen`; any thread may read what is known.

    A fault makes an accelerator unhealthy until the host boots again or somebody returns it: one
    that had a fault and seems to work is not to be trusted with work. Warnings of conditions go
    with the condition; those of events stay as long as faults do.
    """

    def __init__(
        self,
        driver: Driver,
        record: Record,
        *,
        now_unix_s: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._driver = driver
        self._record = record
        self._now_unix_s = now_unix_s
        self._say = say
        self._conditions: list[Observation] = []  # of the last look
        self._known = Known()
        self._changed = threading.Condition()

    def look(self) -> None:
        """Looks at every accelerator. What is missing is reported as lost."""
        self._grant_return()
        try:
            state = self._driver.look()
            lost = Signal(kinds.LOST), ""
        except DriverGoneError as error:
            state, lost = State(accelerators=()), (Signal(kinds.DRIVER_GONE), str(error))
        for accelerator in state.accelerators:
            self._record.know(accelerator)
        missing = self._record.known.keys() - {each.uuid for each in state.accelerators}
        self._conditions = [
            *state.observations,
            *(Observation(uuid, *lost) for uuid in sorted(missing)),
        ]
        for each in self._conditions:
            if judge(each.signal).verdict is Verdict.UNHEALTHY and not self._record.has(each):
                self._add(each)
        self._publish(state.figures)

    def listen(self, timeout_s: float) -> None:
        """Waits for events. Raises DriverGoneError."""
        events = self._driver.events(timeout_s)
        for each in events:
            known = each.old and self._record.has(each)
            if judge(each.signal).verdict is not Verdict.IGNORE and not known:
                self._add(each)
        if events:
            self._publish(self._known.figures)

    def wait(self, version: int, ended: Callable[[], bool]) -> Known | None:
        """What is known, once it is newer than `version`; None when it has `ended` before."""
        with self._changed:
            self._changed.wait_for(lambda: ended() or self._known.version > version)
            return None if ended() else self._known

    def wake(self) -> None:
        """Those who wait ask again whether they have ended."""
        with self._changed:
            self._changed.notify_all()

    def known(self) -> Known:
        with self._changed:
            return self._known

    def _grant_return(self) -> None:
        """What is still wrong with the accelerators is found by the look after it."""
        if self._record.return_request.exists():
            self._say("the accelerators of this host were returned: their faults are forgotten")
            self._record.forget_faults(time.clock_gettime(time.CLOCK_BOOTTIME))
            self._save()
            if not self._record.unsaved:
                self._record.return_request.unlink(missing_ok=True)

    def _add(self, observed: Observation) -> None:
        self._say(f"{observed.uuid}: {judge(observed.signal).reason(observed.detail)}")
        self._record.add(observed, round(self._now_unix_s()))

    def _publish(self, figures: Mapping[str, Figures]) -> None:
        if self._record.unsaved:
            self._save()
        standings = tuple(
            Standing(
                accelerator=accelerator,
                faults=tuple(self._reasons(uuid, Verdict.UNHEALTHY)),
                warnings=tuple(self._reasons(uuid, Verdict.WARN)),
            )
            for uuid, accelerator in sorted(self._record.known.items())
        )
        with self._changed:
            version = self._known.version
            if standings != self._known.standings or not version:
                version += 1
            self._known = Known(version=version, standings=standings, figures=figures)
            self._changed.notify_all()

    def _reasons(self, uuid: str, verdict: Verdict) -> Iterator[str]:
        """Each signal once: with what is recorded of it, or else with what the last look found."""
        details = {fault.signal: fault.detail for fault in self._record.faults.get(uuid, ())}
        for each in self._conditions:
            if each.uuid == uuid:
                details.setdefault(each.signal, each.detail)
        for signal, detail in details.items():
            judged = judge(signal)
            if judged.verdict is verdict:
                yield judged.reason(detail)

    def _save(self) -> None:
        """A full disk must not end the watch; the next look tries again."""
        try:
            self._record.save()
        except OSError as error:
            self._say(f"the record of faults could not be written: {error}")
