"""What a client refuses, or leaves unanswered."""

from __future__ import annotations

import itertools
import math

import pytest
from control_plane.protocol.messages import Acked, Rejected, Silent
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted_client import CLUSTER, ENDPOINTS, ROUTE, ScriptedClient, content, snapshot


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


def answer_all(client: ScriptedClient, bad: set[str]) -> int:
    """Reject every response with a bad resource, acknowledge the others. Number of responses."""
    count = 0
    while client.inbox:
        count += 1
        send = client.inbox[0]
        if bad & {resource.name for resource in send.resources}:
            client.reject(send, "no good")
        else:
            client.ack(send)
    return count


def test_a_rejected_version_is_named_and_not_sent_again(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "bad"}))
    (send,) = client.ask(CLUSTER)

    assert client.reject(send, "field x: wrong") == []

    (event,) = client.events
    assert isinstance(event, Rejected)
    assert (event.culprit, event.detail) == ("a", "field x: wrong")
    assert client.publish(snapshot(clusters={"a": "bad"})) == []
    assert client.stream.quarantined() == {"a": send.resources[0].version}


def test_a_new_version_of_a_rejected_resource_is_sent(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "bad"}))
    (send,) = client.ask(CLUSTER)
    client.reject(send)

    (send,) = client.publish(snapshot(clusters={"a": "good"}))
    client.ack(send)

    assert content(send) == {"a": "good"}
    assert client.stream.acknowledged(CLUSTER, "a") == send.resources[0].version


def test_a_rejected_version_is_tried_again_ever_more_rarely(client: ScriptedClient) -> None:
    """The cause may pass: an address still in use by a process that is about to end."""
    client.publish(snapshot(clusters={"a": "1"}))
    (send,) = client.ask(CLUSTER)
    client.reject(send)
    attempts = []
    for _ in range(1000):
        for retry in client.after(1):
            attempts.append(client.now_s)
            client.reject(retry)

    gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]

    assert gaps == sorted(gaps)
    assert 5 < len(attempts) < 12


def test_the_one_bad_resource_of_many_is_found_and_the_others_are_applied(
    client: ScriptedClient,
) -> None:
    everything = {f"c{number:02}": "1" for number in range(51)}
    client.publish(snapshot(clusters=everything))
    client.ask(CLUSTER)

    responses = answer_all(client, {"c17"})

    held = {name for name in everything if client.stream.acknowledged(CLUSTER, name)}
    assert held == everything.keys() - {"c17"}
    assert client.stream.quarantined().keys() == {"c17"}
    assert responses <= 2 * math.ceil(math.log2(51)) + 1
    culprits = [event.culprit for event in client.events if isinstance(event, Rejected)]
    assert [culprit for culprit in culprits if culprit] == ["c17"]


@settings(max_examples=50)
@given(count=st.integers(1, 40), data=st.data())
def test_any_set_of_bad_resources_is_found(count: int, data: st.DataObject) -> None:
    names = [f"c{number}" for number in range(count)]
    bad = data.draw(st.sets(st.sampled_from(names)))
    client = ScriptedClient()
    client.publish(snapshot(clusters=dict.fromkeys(names, "1")))
    client.ask(CLUSTER)

    responses = answer_all(client, bad)

    assert client.stream.quarantined().keys() == bad
    assert {n for n in names if client.stream.acknowledged(CLUSTER, n)} == set(names) - bad
    assert responses <= (2 * math.ceil(math.log2(count)) + 1 if count > 1 else 1) * max(1, len(bad))


def test_routes_do_not_move_to_a_cluster_that_was_rejected(client: ScriptedClient) -> None:
    wanted = snapshot(clusters={"bad": "1"}, routes={"r": "to bad"}, required=("bad",))
    client.publish(wanted)
    (cluster,) = client.ask(CLUSTER)
    client.ask(ROUTE, "r")

    assert client.reject(cluster) == []
    assert client.after(1) == []


def test_routes_move_to_a_cluster_whose_older_version_is_in_use(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}, routes={}))
    client.ask(CLUSTER)
    client.ask(ROUTE)
    client.ack_all()
    changed = snapshot(clusters={"a": "bad"}, routes={"r": "to a"}, required=("a",))
    (cluster,) = client.publish(changed)

    (routes,) = client.reject(cluster)

    assert content(routes) == {"r": "to a"}


def test_a_silent_client_is_reported_and_not_waited_for(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}))
    client.ask(CLUSTER)

    assert client.after(4) == []
    assert client.events == []
    client.after(2)

    (event,) = client.events
    assert isinstance(event, Silent)
    (send,) = client.publish(snapshot(clusters={"a": "2"}))
    assert content(send) == {"a": "2"}


def test_a_late_acknowledgement_counts(client: ScriptedClient) -> None:
    client.publish(snapshot(clusters={"a": "1"}))
    (send,) = client.ask(CLUSTER)
    client.after(6)

    client.ack(send)

    assert client.stream.acknowledged(CLUSTER, "a") == send.resources[0].version
    assert client.stream.quarantined() == {}


def test_acknowledgements_carry_how_long_the_client_took(client: ScriptedClient) -> None:
    client.ask(ENDPOINTS, "a")
    (send,) = client.publish(snapshot(endpoints={"a": "1"}, created_s=client.now_s + 1))
    client.now_s += 3

    client.ack(send)

    (event,) = client.events
    assert isinstance(event, Acked)
    assert (event.latency_s, event.convergence_s) == (3, 2)
