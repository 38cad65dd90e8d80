"""The 18 scenarios of the public xds-test-harness, in the order of its files: 1 to 12 are those of
subscriptions.feature, read as incremental xDS means them (only what changed is sent), 13, that an
acknowledgement is not answered, is part of each, and 14 to 18 are those of delta.feature. Each is
tried with every type that it names there; routes are scopes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from control_plane.protocol.messages import Send
from control_plane.snapshot import ResourceType, Snapshot
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

WILDCARD_KINDS, EVERY_KIND = (CLUSTER, LISTENER), (CLUSTER, LISTENER, ROUTE, ENDPOINTS)
_ARGUMENTS = {CLUSTER: "clusters", LISTENER: "listeners", ROUTE: "routes", ENDPOINTS: "endpoints"}

wildcards = pytest.mark.parametrize("kind", WILDCARD_KINDS)
every_kind = pytest.mark.parametrize("kind", EVERY_KIND)


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


def of(kind: ResourceType, resources: Mapping[str, str]) -> Snapshot:
    return snapshot(**{_ARGUMENTS[kind]: resources})  # type: ignore[arg-type]


def at(version: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names, version)


def acknowledged(client: ScriptedClient, send: Send) -> dict[str, str]:
    """What was sent. The acknowledgement is not answered: scenario 13."""
    assert client.ack(send) == []
    return content(send)


def subscribed(
    client: ScriptedClient, kind: ResourceType, resources: str, names: str
) -> dict[str, str]:
    """What a client gets that asks for some of the resources."""
    client.publish(of(kind, at("1", resources)))
    (send,) = client.ask(kind, *names)
    return acknowledged(client, send)


@wildcards
def test_1_a_wildcard_request_gets_all_resources(
    client: ScriptedClient, kind: ResourceType
) -> None:
    assert subscribed(client, kind, "ABC", "") == at("1", "ABC")


@wildcards
def test_2_and_3_a_wildcard_request_gets_updates_and_new_resources(
    client: ScriptedClient, kind: ResourceType
) -> None:
    subscribed(client, kind, "ABC", "")

    (send,) = client.publish(of(kind, at("1", "BC") | at("2", "A")))
    assert acknowledged(client, send) == at("2", "A")
    (send,) = client.publish(of(kind, at("1", "BC") | at("2", "AD")))
    assert acknowledged(client, send) == at("2", "D")


@every_kind
def test_4_who_asks_for_some_gets_only_these(client: ScriptedClient, kind: ResourceType) -> None:
    assert subscribed(client, kind, "ABCD", "BD") == at("1", "BD")


@every_kind
def test_5_and_6_who_asks_for_some_gets_their_updates(
    client: ScriptedClient, kind: ResourceType
) -> None:
    subscribed(client, kind, "ABCD", "BD")

    assert client.publish(of(kind, at("1", "BD") | at("2", "AC"))) == []
    (send,) = client.publish(of(kind, at("1", "D") | at("2", "ABC")))
    assert acknowledged(client, send) == at("2", "B")


@every_kind
def test_7_and_8_what_does_not_exist_is_sent_when_it_is_created(
    client: ScriptedClient, kind: ResourceType
) -> None:
    client.publish(of(kind, at("1", "ABCD")))
    (send,) = client.ask(kind, "A", "Z")
    assert content(send) == at("1", "A")
    for later in client.ack(send):
        assert (content(later), later.removed) == ({}, ("Z",))
        client.ack(later)

    (send,) = client.publish(of(kind, at("1", "ABCDZ")))
    assert acknowledged(client, send) == at("1", "Z")


@every_kind
def test_9_and_10_who_gives_some_back_gets_only_the_others(
    client: ScriptedClient, kind: ResourceType
) -> None:
    subscribed(client, kind, "FABCD", "CAB")
    assert client.ask(kind, unsubscribe=("B",)) == []

    (send,) = client.publish(of(kind, at("2", "FABCD")))
    assert acknowledged(client, send) == at("2", "AC")


@every_kind
def test_11_who_gives_all_back_gets_nothing(client: ScriptedClient, kind: ResourceType) -> None:
    subscribed(client, kind, "ABCD", "AB")
    assert client.ask(kind, unsubscribe=("A", "B")) == []

    assert client.publish(of(kind, at("2", "ABCD"))) == []
    assert client.after(60) == []


@pytest.mark.parametrize(("one", "other"), [(CLUSTER, LISTENER), (ROUTE, ENDPOINTS)])
def test_12_several_types_over_one_stream_are_answered_each_for_itself(
    client: ScriptedClient, one: ResourceType, other: ResourceType
) -> None:
    def both(version: str) -> Snapshot:
        first, second = of(one, at(version, "ABC")), of(other, at("1", "ABC"))
        return Snapshot(resources={**first.resources, **second.resources})

    client.publish(both("1"))
    for kind in (one, other):
        (send,) = client.ask(kind, "B")
        assert kinds([send]) == [kind]
        assert acknowledged(client, send) == at("1", "B")

    (send,) = client.publish(both("2"))
    assert kinds([send]) == [one]
    assert acknowledged(client, send) == at("2", "B")


@every_kind
def test_14_resources_can_be_asked_for_one_after_the_other(
    client: ScriptedClient, kind: ResourceType
) -> None:
    assert subscribed(client, kind, "ABC", "A") == at("1", "A")

    (send,) = client.ask(kind, "B")
    assert acknowledged(client, send) == at("1", "B")


@every_kind
def test_15_an_update_comes_alone_with_a_version_and_a_nonce_of_its_own(
    client: ScriptedClient, kind: ResourceType
) -> None:
    client.publish(of(kind, at("1", "ABC")))
    (first,) = client.ask(kind, *"ABC")
    client.ack(first)

    (send,) = client.publish(of(kind, at("1", "BC") | at("2", "A")))

    assert acknowledged(client, send) == at("2", "A")
    assert send.nonce != first.nonce
    assert send.resources[0].version not in {each.version for each in first.resources}


@every_kind
def test_16_a_client_is_told_what_does_not_exist_and_gets_it_when_it_is_created(
    client: ScriptedClient, kind: ResourceType
) -> None:
    client.publish(of(kind, at("1", "A")))
    sends = client.ask(kind, *"AB")
    while client.inbox:
        sends += client.ack(client.inbox[0])
    assert {name: body for send in sends for name, body in content(send).items()} == at("1", "A")
    assert [name for send in sends for name in send.removed] == ["B"]

    (send,) = client.publish(of(kind, at("1", "AB")))

    assert acknowledged(client, send) == at("1", "B")
    assert send.nonce not in {each.nonce for each in sends}


@every_kind
def test_17_a_client_is_told_what_was_removed_and_gets_it_again(
    client: ScriptedClient, kind: ResourceType
) -> None:
    subscribed(client, kind, "AB", "AB")

    sends = client.publish(of(kind, at("1", "A"))) or client.after(60)
    assert [(content(send), send.removed) for send in sends] == [({}, ("B",))]
    client.ack_all()

    (send,) = client.publish(of(kind, at("1", "A") | at("2", "B")))
    assert acknowledged(client, send) == at("2", "B")


@every_kind
def test_18_resources_can_be_given_back_one_after_the_other(
    client: ScriptedClient, kind: ResourceType
) -> None:
    subscribed(client, kind, "AB", "AB")

    assert client.ask(kind, unsubscribe=("B",)) == []
    assert client.publish(of(kind, at("1", "A") | at("2", "B"))) == []
    assert client.ask(kind, unsubscribe=("A",)) == []
    assert client.publish(of(kind, at("2", "AB"))) == []
