"""Follows the accelerators of this host, and says which of them tasks can be given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
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

LAST_XID = "DCGM_FI_DEV_XID_ERRORS"


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
    """Only one thread may call `look` and `listen`; any thread may call the others.

    A fault makes an accelerator unhealthy until the host boots again or somebody returns it: one
    that had a fault and seems to work is not to be trusted with work. Warnings of conditions go
    with the condition; those of events stay as long as faults do.
    """

    def __init__(
        self,
        driver: Driver,
        record: Record,
        *,
        log_position: Callable[[], int],
        now_unix_s: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._driver = driver
        self._record = record
        self._log_position = log_position
        self._now_unix_s = now_unix_s
        self._say = say
        self._conditions: list[Observation] = []  # of the last look
        self._missing: set[str] = set()  # in the last look
        self._silent = ""  # why the driver did not answer in the last look
        self._last_xids: dict[str, int] = {}  # by UUID
        self._figures: Mapping[str, Figures] = {}  # of the last look, by UUID
        self._granted = 0  # the time of the last request for a return
        self._changed = threading.Condition()
        # What another start of the plugin knew: Nomad may reserve before the first look.
        self._known = Known(standings=self._standings())

    def look(self) -> None:
        """Looks at every accelerator. What is missing twice is reported as lost: a driver may fail
        to show one for a moment."""
        self._grant_return()
        state, lost = self._state()
        for accelerator in state.accelerators:
            self._record.know(accelerator)
        missing = self._record.known.keys() - {each.uuid for each in state.accelerators}
        self._conditions = [
            *state.observations,
            *(Observation(uuid, *lost) for uuid in sorted(missing & self._missing)),
        ]
        self._missing = set(missing)
        for each in self._conditions:
            if judge(each.signal).verdict is Verdict.UNHEALTHY:
                self._add(each)
        self._figures = state.figures
        self._publish()

    def listen(self, timeout_s: float) -> None:
        """Waits for events. Raises DriverGoneError."""
        events = self._driver.events(timeout_s)
        for each in events:
            if each.signal.kind == kinds.XID:
                self._last_xids[each.uuid] = each.signal.code
            if judge(each.signal).verdict is not Verdict.IGNORE:
                self._add(each)
        if events:
            self._publish()

    def cannot_read(self, error: Exception) -> None:
        """A look failed for a reason that nobody thought of: what is known stays, with a
        warning."""
        self._say(f"the state of the devices cannot be read: {error!r}")
        signal = Signal(kinds.NOT_READ)
        self._conditions = [Observation(uuid, signal, repr(error)) for uuid in self._record.known]
        self._publish()

    def cannot_wait(self, silence_s: float) -> None:
        """The driver has not answered a look for so long; no device is healthy until it does."""
        reason = judge(Signal(kinds.DRIVER_GONE)).reason(f"no answer for {silence_s:.0f} s")
        with self._changed:
            standings = tuple(
                Standing(accelerator=each.accelerator, faults=(*each.faults, reason))
                for each in self._known.standings
            )
            self._known = Known(version=self._known.version + 1, standings=standings)
            self._changed.notify_all()
        self._say(reason)

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

    def _state(self) -> tuple[State, tuple[Signal, str]]:
        """What the driver shows, and what is wrong with an accelerator that it does not show."""
        try:
            state = self._driver.look()
        except DriverGoneError as error:
            if self._silent != str(error):
                self._say(str(error))
            self._silent = str(error)
            return State(accelerators=()), (Signal(kinds.DRIVER_GONE), str(error))
        self._silent = ""
        return state, (Signal(kinds.LOST), "")

    def _grant_return(self) -> None:
        """Once for each request, also if it cannot be recorded or deleted. What is still wrong is
        found by the look after it."""
        request = self._record.return_request
        try:
            asked = request.stat().st_mtime_ns
        except OSError:
            return
        if asked != self._granted:
            self._granted = asked
            self._say("the devices of this host were returned: their faults are forgotten")
            self._record.forget(self._log_position())
            self._missing.clear()
            self._save()
        if not self._record.unsaved:
            with suppress(OSError):
                request.unlink()

    def _add(self, observed: Observation) -> None:
        if self._record.add(observed, round(self._now_unix_s())):
            self._say(f"{observed.uuid}: {judge(observed.signal).reason(observed.detail)}")

    def _publish(self) -> None:
        if self._record.unsaved:
            self._save()
        standings = self._standings()
        figures = {uuid: self._with_xid(uuid, each) for uuid, each in self._figures.items()}
        with self._changed:
            version = self._known.version
            if standings != self._known.standings or not version:
                version += 1
            self._known = Known(version=version, standings=standings, figures=figures)
            self._changed.notify_all()

    def _standings(self) -> tuple[Standing, ...]:
        return tuple(
            Standing(
                accelerator=accelerator,
                faults=tuple(self._reasons(uuid, Verdict.UNHEALTHY)),
                warnings=tuple(self._reasons(uuid, Verdict.WARN)),
            )
            for uuid, accelerator in sorted(self._record.known.items())
        )

    def _with_xid(self, uuid: str, figures: Figures) -> Figures:
        last = self._last_xids.get(uuid)
        return figures if last is None else {**figures, LAST_XID: float(last)}

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
