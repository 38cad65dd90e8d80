"""Make before break, gated by acknowledgements."""

from __future__ import annotations

import pytest
from control_plane.protocol.stream import ROUTED_REQUEST_S
from support.scripted_client import (
    CLUSTER,
    ENDPOINTS,
    LISTENER,
    ROUTE,
    ScriptedClient,
    content,
    kinds,
    snapshot,
)

OLD = snapshot(
    clusters={"old": "1"},
    endpoints={"old": "1"},
    listeners={"l": "1"},
    routes={"r": "to old"},
    required=("old",),
)
NEW = snapshot(
    clusters={"new": "1"},
    endpoints={"new": "1"},
    listeners={"l": "1"},
    routes={"r": "to new"},
    required=("new",),
)


@pytest.fixture
def client() -> ScriptedClient:
    """Holds all of OLD."""
    client = ScriptedClient()
    client.publish(OLD)
    client.ask(CLUSTER)
    client.ask(ENDPOINTS, "old")
    client.ask(LISTENER)
    client.ask(ROUTE, "r")
    client.ack_all()
    return client


def test_a_swap_adds_then_moves_then_removes(client: ScriptedClient) -> None:
    (cluster,) = client.publish(NEW)
    assert (content(cluster), cluster.removed) == ({"new": "1"}, ())

    (endpoints,) = client.ask(ENDPOINTS, "new")
    assert content(endpoints) == {"new": "1"}
    assert client.ack(endpoints) == []

    (routes,) = client.ack(cluster)
    assert content(routes) == {"r": "to new"}

    assert client.ack(routes) == []
    assert client.after(ROUTED_REQUEST_S - 0.1) == []  # a request may be on its way to it
    (removal,) = client.after(0.1)
    assert (removal.resource_type, removal.removed) == (CLUSTER, ("old",))

    (endpoints_removal,) = client.ack(removal)
    assert (endpoints_removal.resource_type, endpoints_removal.removed) == (ENDPOINTS, ("old",))
    assert client.ack(endpoints_removal) == []


def test_routes_wait_for_the_acknowledgement_of_their_clusters(client: ScriptedClient) -> None:
    client.publish(NEW)
    client.ask(ENDPOINTS, "new")

    assert client.after(1) == []
    assert ROUTE not in kinds(client.inbox)


def test_endpoints_change_while_a_cluster_is_being_warmed(client: ScriptedClient) -> None:
    client.publish(NEW)

    (send,) = client.publish(
        snapshot(
            clusters={"old": "1", "new": "1"},
            endpoints={"old": "2", "new": "1"},
            listeners={"l": "1"},
            routes={"r": "to new"},
            required=("new",),
        )
    )

    assert (send.resource_type, content(send)) == (ENDPOINTS, {"old": "2"})


def test_the_endpoints_of_a_cluster_that_is_sent_again_are_sent_again(
    client: ScriptedClient,
) -> None:
    changed = snapshot(
        clusters={"old": "2"},
        endpoints={"old": "1"},
        listeners={"l": "1"},
        routes={"r": "to old"},
        required=("old",),
    )

    cluster, endpoints = client.publish(changed)

    assert kinds([cluster, endpoints]) == [CLUSTER, ENDPOINTS]
    assert content(endpoints) == {"old": "1"}


def test_the_first_routes_come_whole_and_never_as_an_empty_answer() -> None:
    """They open Envoy's listener: a request that then finds no route would get 404."""
    client = ScriptedClient()
    client.publish(
        snapshot(clusters={"a": "1"}, listeners={"l": "1"}, routes={"r": "1"}, required=("a",))
    )
    (cluster,) = client.ask(CLUSTER)
    (listener,) = client.ask(LISTENER)

    assert client.ask(ROUTE) == []
    assert client.ack(listener) == []
    (routes,) = client.ack(cluster)

    assert content(routes) == {"r": "1"}


def test_routes_wait_for_the_listener(client: ScriptedClient) -> None:
    changed = snapshot(
        clusters={"old": "1"},
        endpoints={"old": "1"},
        listeners={"l": "2"},
        routes={"r": "for listener 2"},
        required=("old",),
    )

    (listener,) = client.publish(changed)
    (routes,) = client.ack(listener)

    assert kinds([listener, routes]) == [LISTENER, ROUTE]


def test_a_cluster_stays_while_the_routes_that_leave_it_are_not_acknowledged(
    client: ScriptedClient,
) -> None:
    (cluster,) = client.publish(NEW)
    (routes,) = client.ack(cluster)

    client.reject(routes)
    assert client.after(1) == []
    (again,) = client.after(10)
    assert content(again) == {"r": "to new"}

    assert client.ack(again) == []
    assert [send.removed for send in client.after(ROUTED_REQUEST_S)] == [("old",)]


def test_a_returning_client_keeps_an_unknown_cluster_until_its_routes_are_known() -> None:
    """Envoy re-subscribes type by type; its old routes may point at that cluster."""
    client = ScriptedClient()
    client.publish(NEW)

    (cluster,) = client.ask(CLUSTER, versions={"old": OLD.version(CLUSTER, "old") or ""})
    client.ack(cluster)
    assert client.inbox == []

    (routes,) = client.ask(ROUTE, "r", versions={"r": OLD.version(ROUTE, "r") or ""})
    assert client.ack(routes) == []
    assert [send.removed for send in client.after(ROUTED_REQUEST_S)] == [("old",)]


def test_a_client_that_never_asks_for_routes_is_told_of_removals_after_a_while() -> None:
    client = ScriptedClient()
    client.publish(OLD)
    client.ask(CLUSTER)
    client.ack_all()
    client.publish(NEW)
    client.ack_all()

    (removal,) = client.after(6)

    assert removal.removed == ("old",)
