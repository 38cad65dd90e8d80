"""The resources of one type that one client wants and holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ..snapshot import Resource, Resources, ResourceType
from .messages import Request

WILDCARD = "*"

# A rejection may have a temporary cause (a port still in use), so a quarantine ends, and each one
# lasts longer than the last.
FIRST_QUARANTINE_S = 5.0
LONGEST_QUARANTINE_S = 300.0

# Only for these types does a first request without names mean "everything" (xDS protocol, delta;
# Envoy asks so for scopes of routes, too).
_LEGACY_WILDCARD = frozenset({ResourceType.CLUSTER, ResourceType.LISTENER, ResourceType.ROUTE})


@dataclass(frozen=True, slots=True)
class InFlight:
    """A response that the client has not answered yet."""

    nonce: str
    versions: Mapping[str, str]
    removed: tuple[str, ...]
    sent_s: float
    created_s: float


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A version that the client rejected, or left unanswered, and when it may be tried again."""

    version: str
    lasts_s: float
    ends_s: float


class Subscription:
    """At most one response is in flight; changes made meanwhile go together into the next one.

    `confirmed` is what the client has acknowledged: name -> version. A rejected version is
    quarantined. After a rejected response with several resources each half is tried alone, so that
    one bad resource does not hold back the others.

    `_open` has the names of what the client may not hold as it should. Only these are looked at:
    looking at all would take longer with each model, at every change and for every client.
    """

    def __init__(self, resource_type: ResourceType) -> None:
        self.resource_type = resource_type
        self.names: set[str] = set()
        self.wildcard = False
        self.confirmed: dict[str, str] = {}
        self.quarantined: dict[str, Quarantine] = {}
        self.in_flight: InFlight | None = None
        self._late: InFlight | None = None
        self._owed: set[str] = set()  # names that must be sent even if they seem current
        self._suspects: deque[tuple[str, ...]] = deque()
        self._open: set[str] = set()
        self._all_open = False
        self._seen_request = False
        self._unanswered = False

    def receive(self, request: Request) -> None:
        """Apply the subscription part of a request, which is valid whatever its nonce."""
        if not self._seen_request:
            self._seen_request = True
            no_names = not request.subscribe and not request.unsubscribe
            self.wildcard = no_names and self.resource_type in _LEGACY_WILDCARD
            self.confirmed.update(request.initial_versions)
            self._unanswered = self.wildcard and not request.initial_versions
            self._all_open = True
        for name in request.subscribe:
            if name == WILDCARD:
                self.wildcard = self._all_open = True
                continue
            self.names.add(name)
            self._open.add(name)
            if name not in request.initial_versions:
                self._owed.add(name)
        for name in request.unsubscribe:
            self._unsubscribe(name)

    def _unsubscribe(self, name: str) -> None:
        if name == WILDCARD:
            self.wildcard = False
            self.confirmed = {n: v for n, v in self.confirmed.items() if n in self.names}
            return
        self.names.discard(name)
        self._owed.discard(name)
        if not self.wildcard:
            self.confirmed.pop(name, None)

    def owe(self, names: frozenset[str]) -> None:
        """Mark names to be sent again although the client holds them, if it subscribed to them by
        name."""
        self._owed |= names & self.names
        self._open |= names & self.names

    def changed(self, names: frozenset[str]) -> None:
        """Resources that came, went or have another version."""
        self._open |= names

    def due(self, available: Resources, now_s: float) -> tuple[Resource, ...]:
        """Resources to send next, by name; after a rejection, one batch of suspects."""
        self._close(available)
        while self._suspects:
            batch = [available[name] for name in self._suspects[0] if name in available]
            needed = tuple(resource for resource in batch if self._needs(resource, now_s))
            if needed:
                return needed
            self._suspects.popleft()
        return tuple(
            available[name]
            for name in sorted(self._open)
            if self._wants(name) and name in available and self._needs(available[name], now_s)
        )

    def _close(self, available: Resources) -> None:
        """Leaves open what the client does not hold as it should."""
        if self._all_open:
            self._all_open = False
            self._open |= self.confirmed.keys() | (
                available.keys() if self.wildcard else self.names
            )
        self._open = {name for name in self._open if not self._is_settled(name, available)}

    def _is_settled(self, name: str, available: Resources) -> bool:
        if name not in available:
            return name not in self.confirmed
        if not self._wants(name):
            return True
        return self.confirmed.get(name) == available[name].version and name not in self._owed

    def _wants(self, name: str) -> bool:
        return self.wildcard or name in self.names

    def missing(self, available: Resources) -> tuple[str, ...]:
        """Subscribed names that do not exist and that the client does not hold; it must be told
        so."""
        return tuple(sorted(self._owed - available.keys() - self.confirmed.keys()))

    def stale(self, available: Resources) -> tuple[str, ...]:
        """Names that the client holds but should not any more."""
        self._close(available)
        return tuple(sorted((self._open & self.confirmed.keys()) - available.keys()))

    @property
    def unanswered(self) -> bool:
        """Whether a response was sent that the client has not answered; it may have applied it."""
        return self.in_flight is not None or self._late is not None

    @property
    def awaits_first_answer(self) -> bool:
        """The client subscribed to everything, holds nothing, and has not had an answer yet, not
        even an empty one. Envoy waits up to 15 s for one at start."""
        return self._unanswered

    def holds(self, resource: Resource) -> bool:
        """Whether the client has this version, or an older one because it rejected this one."""
        version = self.confirmed.get(resource.name)
        return version is not None and (
            version == resource.version or self._is_quarantined(resource)
        )

    def sent(
        self,
        nonce: str,
        resources: tuple[Resource, ...],
        removed: tuple[str, ...],
        *,
        now_s: float,
        created_s: float,
    ) -> None:
        versions = {resource.name: resource.version for resource in resources}
        self.in_flight = InFlight(nonce, versions, removed, now_s, created_s)
        self._unanswered = False
        self._owed -= versions.keys()
        self._owed.difference_update(removed)
        if self._suspects and versions:
            self._suspects.popleft()

    def acknowledge(self, nonce: str) -> InFlight | None:
        """The client applied a response. None if that response is not in flight."""
        answered = self._answered(nonce)
        if answered is None:
            return None
        held = {n: v for n, v in answered.versions.items() if self.wildcard or n in self.names}
        self.confirmed.update(held)
        for name, version in answered.versions.items():
            if name in self.quarantined and self.quarantined[name].version == version:
                del self.quarantined[name]
        for name in answered.removed:
            self.confirmed.pop(name, None)
        self._open |= answered.versions.keys() | set(answered.removed)
        return answered

    def reject(self, nonce: str, now_s: float) -> InFlight | None:
        """The client refused a response: quarantine its one resource, or suspect each half."""
        answered = self._answered(nonce)
        if answered is None:
            return None
        names = tuple(answered.versions)
        if len(names) == 1:
            self._quarantine(answered, now_s)
        elif names:
            middle = len(names) // 2
            self._suspects.extendleft((names[middle:], names[:middle]))
        return answered

    def give_up(self, now_s: float) -> InFlight:
        """Stop waiting for an answer. A late one still counts."""
        assert self.in_flight is not None, "nothing is in flight"  # noqa: S101
        self._late, self.in_flight = self.in_flight, None
        self._quarantine(self._late, now_s)
        return self._late

    def _answered(self, nonce: str) -> InFlight | None:
        if self.in_flight is not None and nonce == self.in_flight.nonce:
            answered, self.in_flight = self.in_flight, None
            self._late = None  # clients answer in order
            return answered
        if self._late is not None and nonce == self._late.nonce:
            answered, self._late = self._late, None
            return answered
        return None

    def _quarantine(self, refused: InFlight, now_s: float) -> None:
        for name, version in refused.versions.items():
            last = self.quarantined.get(name)
            again = last is not None and last.version == version
            lasts_s = (
                min(2 * last.lasts_s, LONGEST_QUARANTINE_S)
                if last and again
                else (FIRST_QUARANTINE_S)
            )
            self.quarantined[name] = Quarantine(version, lasts_s, now_s + lasts_s)

    def _is_quarantined(self, resource: Resource) -> bool:
        quarantine = self.quarantined.get(resource.name)
        return quarantine is not None and quarantine.version == resource.version

    def _needs(self, resource: Resource, now_s: float) -> bool:
        if self._is_quarantined(resource) and now_s < self.quarantined[resource.name].ends_s:
            return False
        current = self.confirmed.get(resource.name) == resource.version
        return not current or resource.name in self._owed
