"""What a client asks for is what it gets: the subscription rules of incremental xDS."""

from __future__ import annotations

import pytest
from control_plane.snapshot import ResourceType
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


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


def test_nothing_is_sent_before_the_first_snapshot(client: ScriptedClient) -> None:
    assert client.ask(CLUSTER) == []
    assert client.after(60) == []

    (send,) = client.publish(snapshot(clusters={"a": "1"}))

    assert content(send) == {"a": "1"}


@pytest.mark.parametrize("kind", [CLUSTER, LISTENER, ROUTE])
def test_a_first_request_without_names_means_everything(
    client: ScriptedClient, kind: ResourceType
) -> None:
    resources = {"a": "1", "b": "2"}
    client.publish(snapshot(clusters=resources, listeners=resources, routes=resources))

    (send,) = client.ask(kind)

    assert content(send) == resources


def test_for_other_types_a_request_without_names_means_nothing(client: ScriptedClient) -> None:
    client.publish(snapshot(endpoints={"a": "1"}))

    assert client.ask(ENDPOINTS) == []


def test_an_explicit_wildcard_means_everything_and_can_be_given_back(
    client: ScriptedClient,
) -> None:
    client.publish(snapshot(endpoints={"a": "1", "b": "2"}))
    (send,) = client.ask(ENDPOINTS, "*", "a")
    assert content(send) == {"a": "1", "b": "2"}
    client.ack(send)

    client.ask(ENDPOINTS, unsubscribe=("*",))
    (send,) = client.publish(snapshot(endpoints={"a": "3", "b": "4"}))

    assert content(send) == {"a": "3"}


def test_a_wildcard_over_nothing_is_told_so_once(client: ScriptedClient) -> None:
    """Envoy holds its listeners back for 15 s when this answer does not come."""
    client.publish(snapshot(clusters={}))

    (send,) = client.ask(CLUSTER)

    assert (send.resources, send.removed) == ((), ())
    assert client.ack(send) == []
    assert client.publish(snapshot(clusters={})) == []


def test_a_subset_gets_only_its_names(client: ScriptedClient) -> None:
    client.publish(snapshot(endpoints={"a": "1", "b": "2", "c": "3"}))

    (send,) = client.ask(ENDPOINTS, "a", "c")

    assert content(send) == {"a": "1", "c": "3"}


def test_only_what_changed_is_sent(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1", "b": "1"}))
    client.ask(CLUSTER)
    client.ack_all()

    (send,) = client.publish(snapshot(clusters={"a": "1", "b": "2"}))

    assert content(send) == {"b": "2"}
    assert client.publish(snapshot(clusters={"a": "1", "b": "2"})) == []


def test_changes_while_an_answer_is_awaited_go_together_into_the_next_response(
    client: ScriptedClient,
) -> None:
    client.publish(snapshot(clusters={"a": "1", "b": "1"}))
    (first,) = client.ask(CLUSTER)

    assert client.publish(snapshot(clusters={"a": "2", "b": "1"})) == []
    assert client.publish(snapshot(clusters={"a": "3", "b": "3"})) == []
    (second,) = client.ack(first)

    assert content(second) == {"a": "3", "b": "3"}


def test_a_resource_that_does_not_exist_yet_is_reported_missing_and_sent_when_created(
    client: ScriptedClient,
) -> None:
    client.publish(snapshot(endpoints={}))
    (send,) = client.ask(ENDPOINTS, "later")
    assert send.removed == ("later",)
    client.ack(send)

    (send,) = client.publish(snapshot(endpoints={"later": "1"}))

    assert content(send) == {"later": "1"}


def test_a_removed_resource_is_announced(client: ScriptedClient) -> None:
    client.publish(snapshot(endpoints={"a": "1", "b": "1"}))
    client.ask(ENDPOINTS, "a", "b")
    client.ack_all()

    (send,) = client.publish(snapshot(endpoints={"b": "1"}))

    assert (content(send), send.removed) == ({}, ("a",))
    client.ack(send)
    (send,) = client.publish(snapshot(endpoints={"a": "1", "b": "1"}))
    assert content(send) == {"a": "1"}


def test_after_unsubscribing_changes_are_not_sent(client: ScriptedClient) -> None:
    client.publish(snapshot(endpoints={"a": "1", "b": "1"}))
    client.ask(ENDPOINTS, "a", "b")
    client.ack_all()

    assert client.ask(ENDPOINTS, unsubscribe=("a",)) == []
    (send,) = client.publish(snapshot(endpoints={"a": "2", "b": "2"}))

    assert content(send) == {"b": "2"}


def test_unsubscribing_from_all_names_does_not_become_a_wildcard(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}))
    client.ask(CLUSTER, "a")
    client.ack_all()

    assert client.ask(CLUSTER, unsubscribe=("a",)) == []
    assert client.publish(snapshot(clusters={"a": "2"})) == []


def test_subscribing_again_is_answered_although_the_version_is_known(
    client: ScriptedClient,
) -> None:
    client.publish(snapshot(endpoints={"a": "1"}))
    client.ask(ENDPOINTS, "a")
    client.ack_all()

    (send,) = client.ask(ENDPOINTS, "a")

    assert content(send) == {"a": "1"}


def test_an_acknowledgement_of_another_nonce_confirms_nothing(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}))
    (send,) = client.ask(CLUSTER)

    assert client.ask(CLUSTER, nonce="999") == []
    assert client.stream.acknowledged(CLUSTER, "a") is None
    client.ack(send)

    assert client.stream.acknowledged(CLUSTER, "a") == send.resources[0].version


def test_a_subscription_in_a_request_with_a_stale_nonce_counts(client: ScriptedClient) -> None:
    client.publish(snapshot(endpoints={"a": "1", "b": "1"}))
    (send,) = client.ask(ENDPOINTS, "a")

    client.ask(ENDPOINTS, "b", nonce="999")
    (second,) = client.ack(send)

    assert content(second) == {"b": "1"}


def test_a_client_that_returns_with_current_versions_is_sent_nothing(
    client: ScriptedClient,
) -> None:
    current = snapshot(clusters={"a": "1"}, endpoints={"a": "1"}, routes={"r": "1"})
    versions = {kind: current.version(kind, "a") or "" for kind in (CLUSTER, ENDPOINTS)}
    client.publish(current)

    assert client.ask(CLUSTER, versions={"a": versions[CLUSTER]}) == []
    assert client.ask(ENDPOINTS, "a", versions={"a": versions[ENDPOINTS]}) == []
    assert client.ask(ROUTE, "r", versions={"r": current.version(ROUTE, "r") or ""}) == []


def test_a_client_that_returns_is_sent_what_changed_and_told_what_went(
    client: ScriptedClient,
) -> None:
    current = snapshot(endpoints={"same": "1", "changed": "2"})
    same = current.version(ENDPOINTS, "same") or ""
    client.publish(current)

    versions = {"same": same, "changed": "old", "gone": "old"}
    (send,) = client.ask(ENDPOINTS, "same", "changed", "gone", versions=versions)
    assert content(send) == {"changed": "2"}
    (send,) = client.ack(send)

    assert send.removed == ("gone",)


def test_types_do_not_wait_for_each_others_subscriptions(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}, listeners={"l": "1"}))

    assert kinds(client.ask(LISTENER)) == [LISTENER]
    assert kinds(client.ask(CLUSTER)) == [CLUSTER]
