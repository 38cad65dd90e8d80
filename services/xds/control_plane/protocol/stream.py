"""One client's ADS stream: five subscriptions and the order in which they are updated.

Make before break, each step gated by the client's acknowledgement of the one before:

1. clusters are added or changed (Envoy acknowledges once they are warm);
2. their endpoints follow, and are sent again with a cluster that is sent again: otherwise Envoy
   1.40 keeps it warming for 15 s;
3. the listener;
4. the routes, once every cluster they point to is acknowledged;
5. resources that are no longer needed are removed: clusters some time after the routes, because a
   request that was routed earlier may look up its cluster later; endpoints after their cluster.

Endpoint changes of existing clusters and the runtime layer are sent at once.
"""

from __future__ import annotations

from ..snapshot import Resources, ResourceType, Snapshot
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
        self._routes_moved_s: float | None = None

    def on_request(self, request: Request, now_s: float) -> list[Action]:
        subscription = self._subscriptions.setdefault(
            request.resource_type, Subscription(request.resource_type)
        )
        subscription.receive(request)
        return self._answer(subscription, request, now_s) + self._advance(now_s)

    def on_snapshot(self, snapshot: Snapshot, now_s: float) -> list[Action]:
        if self._snapshot is None or snapshot.of(_ROUTE) != self._snapshot.of(_ROUTE):
            self._routes_moved_s = None
        self._snapshot = snapshot
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
        resources = subscription.due(available, now_s)
        if resources and resource_type is _ROUTE and not self._clusters_ready(snapshot):
            return None
        removed = subscription.missing(available)
        if not resources:
            removed += self._removable(subscription, available, snapshot, now_s)
        if not resources and not removed and not subscription.awaits_first_answer:
            return None
        self._last_nonce += 1
        nonce = str(self._last_nonce)
        subscription.sent(nonce, resources, removed, now_s=now_s, created_s=snapshot.created_s)
        if resource_type is _CLUSTER and _ENDPOINTS in self._subscriptions:
            names = frozenset(resource.name for resource in resources)
            self._subscriptions[_ENDPOINTS].owe(names)
        return Send(resource_type=resource_type, nonce=nonce, resources=resources, removed=removed)

    def _clusters_ready(self, snapshot: Snapshot) -> bool:
        """Whether the client has warmed the listener and every cluster that the routes point to."""
        clusters = self._subscriptions.get(_CLUSTER)
        listener = self._subscriptions.get(_LISTENER)
        if listener is not None and listener.in_flight:
            return False
        if clusters is None:
            return True
        available = snapshot.of(_CLUSTER)
        return all(clusters.holds(available[name]) for name in snapshot.required)

    def _removable(
        self, subscription: Subscription, available: Resources, snapshot: Snapshot, now_s: float
    ) -> tuple[str, ...]:
        stale = subscription.stale(available)
        if subscription.resource_type is _CLUSTER:
            return stale if self._routes_left(snapshot, now_s) else ()
        if subscription.resource_type is _ENDPOINTS and _CLUSTER in self._subscriptions:
            clusters = self._subscriptions[_CLUSTER].confirmed
            return tuple(name for name in stale if name not in clusters)
        return stale

    def _routes_left(self, snapshot: Snapshot, now_s: float) -> bool:
        """Whether no route, and no request already routed, leads to an old cluster any more."""
        routes = self._subscriptions.get(_ROUTE)
        if routes is None:
            return now_s - self._started_s > _FIRST_ROUTES_S
        if not routes.settled(snapshot.of(_ROUTE)):
            self._routes_moved_s = None
            return False
        if self._routes_moved_s is None:
            self._routes_moved_s = now_s
        return now_s - self._routes_moved_s >= ROUTED_REQUEST_S


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
