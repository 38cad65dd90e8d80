"""One client's ADS stream: five subscriptions and the order in which they are updated.

Make before break, each step gated by the client's acknowledgement of the one before:

1. clusters are added or changed (Envoy acknowledges once they are warm);
2. their endpoints follow, and are sent again with a cluster that is sent again: otherwise Envoy
   1.40 keeps it warming for 15 s;
3. the listener;
4. the routes of a model, once every cluster they point to is acknowledged;
5. resources that are no longer needed are removed: a cluster some time after the last routes to it,
   because a request that was routed earlier may look it up later; endpoints after their cluster.

Endpoint changes of existing clusters and the runtime layer are sent at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..hub import Published
from ..snapshot import Resource, Resources, ResourceType, Snapshot
from .messages import Acked, Action, Rejected, Request, Send, Silent
from .subscription import InFlight, Subscription

ANSWER_DEADLINE_S = 5.0
# From the choice of a route to the choice of a replica: cores may be busy, and a request body slow.
ROUTED_REQUEST_S = 5.0
_FIRST_ROUTES_S = 5.0  # how long removals wait for a client to subscribe to routes

_CLUSTER = ResourceType.CLUSTER
_ENDPOINTS = ResourceType.ENDPOINTS
_LISTENER = ResourceType.LISTENER
_ROUTE = ResourceType.ROUTE


class DeltaStream:
    """Takes requests, snapshots and ticks; the caller carries out the actions it returns, in order.

    Times are monotonic seconds. Nothing is sent before the first snapshot, so that a client keeps
    what it has instead of being told that nothing exists.
    """

    def __init__(self, *, now_s: float) -> None:
        self._started_s = now_s
        self._snapshot: Snapshot | None = None
        self._subscriptions: dict[ResourceType, Subscription] = {}
        self._last_nonce = 0
        self._needs: dict[tuple[str, str], frozenset[str]] = {}  # of routes sent, by name, version
        self._unrouted_s: dict[str, float] = {}  # since when no route leads to an old cluster

    def on_request(self, request: Request, now_s: float) -> list[Action]:
        subscription = self._subscriptions.setdefault(
            request.resource_type, Subscription(request.resource_type)
        )
        subscription.receive(request)
        return self._answer(subscription, request, now_s) + self._advance(now_s)

    def on_snapshot(self, published: Published, now_s: float) -> list[Action]:
        self._snapshot = published.snapshot
        for resource_type, names in published.names.items():
            if resource_type in self._subscriptions:
                self._subscriptions[resource_type].changed(names)
        return self._advance(now_s)

    def on_tick(self, now_s: float) -> list[Action]:
        """Stop waiting for overdue answers."""
        actions: list[Action] = []
        for resource_type, subscription in self._subscriptions.items():
            waiting = subscription.in_flight
            if waiting and now_s - waiting.sent_s > ANSWER_DEADLINE_S:
                names = tuple(subscription.give_up(now_s).versions)
                actions.append(Silent(resource_type=resource_type, names=names))
        return actions + self._advance(now_s)

    def acknowledged(self, resource_type: ResourceType, name: str) -> str | None:
        """The version of a resource that the client acknowledged last."""
        subscription = self._subscriptions.get(resource_type)
        return subscription.confirmed.get(name) if subscription else None

    def confirmed(self, resource_type: ResourceType) -> Mapping[str, str]:
        """The versions of all resources that the client has acknowledged, by name."""
        subscription = self._subscriptions.get(resource_type)
        return subscription.confirmed if subscription else {}

    def unanswered(self, resource_type: ResourceType) -> bool:
        """Whether the client may hold something newer than it has acknowledged."""
        subscription = self._subscriptions.get(resource_type)
        return subscription is not None and subscription.unanswered

    def quarantined(self) -> dict[str, str]:
        """Versions that the client rejected: resource name -> version."""
        subscriptions = self._subscriptions.values()
        return {n: q.version for s in subscriptions for n, q in s.quarantined.items()}

    def _answer(self, subscription: Subscription, request: Request, now_s: float) -> list[Action]:
        if not request.nonce:
            return []
        if request.error is not None:
            return _rejection(subscription, request.nonce, request.error, now_s)
        answered = subscription.acknowledge(request.nonce)
        return [self._acked(subscription, answered, now_s)] if answered else []

    def _acked(self, subscription: Subscription, answered: InFlight, now_s: float) -> Acked:
        fresh = answered.created_s > self._started_s
        return Acked(
            resource_type=subscription.resource_type,
            latency_s=now_s - answered.sent_s,
            convergence_s=now_s - answered.created_s if fresh else None,
        )

    def _advance(self, now_s: float) -> list[Action]:
        """Everything that may be sent now: for each type, updates, else removals."""
        if self._snapshot is None:
            return []
        sends: list[Action] = []
        for resource_type in ResourceType:
            subscription = self._subscriptions.get(resource_type)
            if subscription is None or subscription.in_flight:
                continue
            send = self._next(subscription, self._snapshot, now_s)
            if send is not None:
                sends.append(send)
        return sends

    def _next(self, subscription: Subscription, snapshot: Snapshot, now_s: float) -> Send | None:
        resource_type = subscription.resource_type
        available = snapshot.of(resource_type)
        due = resources = subscription.due(available, now_s)
        if resource_type is _ROUTE:
            resources = self._routable(subscription, due, snapshot)
        removed = subscription.missing(available)
        if not resources:
            removed += self._removable(subscription, available, snapshot, now_s)
        empty = not resources and not removed
        if empty and (due or not subscription.awaits_first_answer):
            return None
        self._last_nonce += 1
        nonce = str(self._last_nonce)
        subscription.sent(nonce, resources, removed, now_s=now_s, created_s=snapshot.created_s)
        if resource_type is _ROUTE:
            self._needs |= {(r.name, r.version): r.needs for r in resources}
        if resource_type is _CLUSTER and _ENDPOINTS in self._subscriptions:
            names = frozenset(resource.name for resource in resources)
            self._subscriptions[_ENDPOINTS].owe(names)
        return Send(resource_type=resource_type, nonce=nonce, resources=resources, removed=removed)

    def _routable(
        self, subscription: Subscription, routes: tuple[Resource, ...], snapshot: Snapshot
    ) -> tuple[Resource, ...]:
        """Those for which the client has warmed the listener and every cluster they point to. The
        first answer opens the listener, so it has all that can be routed soon."""
        clusters = self._subscriptions.get(_CLUSTER)
        listener = self._subscriptions.get(_LISTENER)
        if listener is not None and listener.in_flight:
            return ()
        if clusters is None:
            return routes
        if subscription.awaits_first_answer and clusters.in_flight:
            return ()
        available = snapshot.of(_CLUSTER)
        return tuple(
            route for route in routes if all(clusters.holds(available[c]) for c in route.needs)
        )

    def _removable(
        self, subscription: Subscription, available: Resources, snapshot: Snapshot, now_s: float
    ) -> tuple[str, ...]:
        stale = subscription.stale(available)
        if subscription.resource_type is _CLUSTER:
            return self._unrouted(stale, snapshot, now_s)
        if subscription.resource_type is _ENDPOINTS and _CLUSTER in self._subscriptions:
            clusters = self._subscriptions[_CLUSTER].confirmed
            return tuple(name for name in stale if name not in clusters)
        return stale

    def _unrouted(
        self, stale: tuple[str, ...], snapshot: Snapshot, now_s: float
    ) -> tuple[str, ...]:
        """Those old clusters to which no route, and no request already routed, leads any more."""
        if not stale:
            self._unrouted_s = {}
            return ()
        routes = self._subscriptions.get(_ROUTE)
        if routes is None:
            return stale if now_s - self._started_s > _FIRST_ROUTES_S else ()
        routed = self._routed(routes, snapshot)
        left = () if routed is None else [name for name in stale if name not in routed]
        self._unrouted_s = {name: self._unrouted_s.get(name, now_s) for name in left}
        since = self._unrouted_s.items()
        return tuple(name for name, since_s in since if now_s - since_s >= ROUTED_REQUEST_S)

    def _routed(self, routes: Subscription, snapshot: Snapshot) -> set[str] | None:
        """The clusters that the client's routes may lead to; None while that is not known."""
        if routes.unanswered or not routes.confirmed:
            return None
        available = snapshot.of(_ROUTE)
        found = set[str]()
        for name, version in routes.confirmed.items():
            current = available.get(name)
            known = current.needs if current and current.version == version else None
            needs = self._needs.get((name, version), known)
            if needs is None:
                return None
            found |= needs
        held = routes.confirmed.items()
        self._needs = {key: self._needs[key] for key in held if key in self._needs}
        return found


def _rejection(subscription: Subscription, nonce: str, error: str, now_s: float) -> list[Action]:
    refused = subscription.reject(nonce, now_s)
    if refused is None:
        return []
    names = tuple(refused.versions)
    return [
        Rejected(
            resource_type=subscription.resource_type,
            names=names,
            detail=error,
            culprit=names[0] if len(names) == 1 else None,
        )
    ]
