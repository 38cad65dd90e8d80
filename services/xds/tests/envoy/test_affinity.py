# mypy: disable-error-code="import-untyped"
"""Requests with one key go to one replica, in every Envoy, until it has more than its share."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from control_plane.placement import placement as predicted
from control_plane.resources.load_balancing import KEY_HEADER
from control_plane.routing import Endpoint, Routing, RoutingTable
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway, route
from support.waiting import eventually

pytestmark = pytest.mark.binaries

HEADER = "x-session-id"
# So that nothing but the key decides: no replica is passed over.
UNBOUNDED = Routing(key="session", session_header=HEADER, bound_percent=10_000)
REPLICAS, KEYS = 10, 2000
CLUSTER = "model_tiny_1_openai"

Placement = dict[str, str]  # key -> marker of its replica


@pytest.fixture
async def replicas() -> AsyncIterator[list[FakeReplica]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(FakeReplica(f"tiny.replica[{number}]"))
            for number in range(REPLICAS)
        ]


def named(replica: FakeReplica) -> Endpoint:
    """Its marker is its name."""
    return Endpoint(replica.address, replica.http_port, True, replica.marker)


async def serve(to: Gateway, replicas: Sequence[FakeReplica], routing: Routing = UNBOUNDED) -> None:
    await to.apply(route("tiny", routing=routing), **{CLUSTER: tuple(map(named, replicas))})


async def placement(of: Gateway, keys: int = KEYS) -> Placement:
    async with aiohttp.ClientSession() as session:

        async def ask(key: str) -> tuple[str, str]:
            body, headers = {"model": "tiny"}, {HEADER: key}
            async with session.post(
                f"{of.url}/v1/completions", json=body, headers=headers
            ) as response:
                return key, (await response.json())["marker"]

        found = {}
        for first in range(0, keys, 16):
            together = range(first, min(first + 16, keys))
            found |= dict(await asyncio.gather(*(ask(f"session {n}") for n in together)))
        return found


def moved(before: Placement, after: Placement) -> int:
    return sum(before[key] != after[key] for key in before)


async def test_keys_stay_when_replicas_leave_return_or_restart_elsewhere(
    gateway: Gateway, replicas: list[FakeReplica]
) -> None:
    await serve(gateway, replicas)
    at_first = await placement(gateway)
    shares = Counter(at_first.values())
    assert len(shares) == REPLICAS
    assert max(shares.values()) < 1.3 * KEYS / REPLICAS  # what 2,000 keys at random have

    await serve(gateway, replicas[1:])
    without_one = await placement(gateway)
    assert moved(at_first, without_one) <= KEYS * (1 / REPLICAS + 0.01)
    assert replicas[0].marker not in without_one.values()

    async with FakeReplica(replicas[0].marker) as elsewhere:
        await serve(gateway, [*replicas[1:], elsewhere])
        assert await placement(gateway) == at_first
        assert elsewhere.requests


async def test_another_envoy_that_has_just_started_places_keys_alike(
    gateway: Gateway, replicas: list[FakeReplica], tmp_path: Path
) -> None:
    await serve(gateway, replicas)
    placed = await placement(gateway, 500)
    (tmp_path / "other").mkdir()
    async with other_gateway(tmp_path / "other") as other:
        await serve(other, replicas[::-1])
        assert await placement(other, 500) == placed


other_gateway = gateway


async def test_a_replica_that_is_down_passes_its_keys_on_and_nobody_waits(
    gateway: Gateway, replicas: list[FakeReplica]
) -> None:
    await serve(gateway, replicas)
    before = await placement(gateway, 200)
    await replicas[0].__aexit__()
    after = await placement(gateway, 200)
    down = replicas[0].marker
    assert down in before.values()
    assert down not in after.values()
    others = {key: marker for key, marker in before.items() if marker != down}
    assert moved(others, after) <= 0.02 * len(others)  # it has been ejected from the table


@pytest.mark.parametrize(("in_flight", "bound_percent"), [(16, 150), (64, 125)])
async def test_the_replica_of_one_hot_key_gets_no_more_than_its_bound(
    gateway: Gateway,
    client: aiohttp.ClientSession,
    replicas: list[FakeReplica],
    in_flight: int,
    bound_percent: int,
) -> None:
    few = replicas[:4]
    routing = Routing(key="session", session_header=HEADER, bound_percent=bound_percent)
    await serve(gateway, few, routing)

    async def stream() -> None:
        body, headers = {"model": "tiny", "stream": True}, {HEADER: "hot"}
        async with client.post(
            f"{gateway.url}/v1/completions", json=body, headers=headers
        ) as response:
            await response.read()

    async with asyncio.TaskGroup() as streams:
        for number in range(1, in_flight + 1):
            streams.create_task(stream())
            await eventually(lambda n=number: in_all(few) == n, "one more stream")
        busiest = max(replica.in_flight for replica in few)
        for replica in few:
            replica.release.set()
    # Each worker of Envoy rounds up its own share.
    assert busiest <= in_flight * bound_percent / 100 / len(few) + 2


def in_all(replicas: Sequence[FakeReplica]) -> int:
    return sum(replica.in_flight for replica in replicas)


async def test_conversations_have_a_replica_each_below_a_shared_system_prompt(
    gateway: Gateway, client: aiohttp.ClientSession, replicas: list[FakeReplica]
) -> None:
    few = replicas[:4]
    await serve(gateway, few, Routing(bound_percent=10_000))
    shared = {"role": "system", "content": "be kind " * 400}

    async def ask(*contents: str) -> str:
        roles = ["user", "assistant"] * len(contents)
        turns = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
        body = {"messages": [shared, *turns], "model": "tiny"}
        async with client.post(f"{gateway.url}/v1/chat/completions", json=body) as response:
            return str((await response.json())["marker"])

    learning = [await ask(f"conversation {number}") for number in range(200)]
    assert set(learning[150:]) == {replica.marker for replica in few}
    first = [await ask(f"hello {number}") for number in range(40)]
    second = [await ask(f"hello {number}", "hi", "and now?") for number in range(40)]
    assert first == second


async def test_a_grpc_stream_has_its_key_in_the_same_header(
    gateway: Gateway, replicas: list[FakeReplica]
) -> None:
    endpoints = tuple(
        Endpoint(replica.address, replica.grpc_port, True, replica.marker) for replica in replicas
    )
    await gateway.apply(route("tiny", routing=UNBOUNDED), model_tiny_1_grpc=endpoints)

    async def ask(key: str) -> str:
        async with triton.InferenceServerClient(gateway.target) as client:
            answer = await client.infer("tiny", inputs=[], headers={HEADER: key})
            return str(answer.get_response().model_version)

    first = [await ask(f"{number}") for number in range(20)]
    assert [await ask(f"{number}") for number in range(20)] == first
    assert len(set(first)) > 3


async def test_a_client_cannot_choose_the_key(
    gateway: Gateway, client: aiohttp.ClientSession, replicas: list[FakeReplica]
) -> None:
    await serve(gateway, replicas)
    seen = set()
    for number in range(20):
        headers = {HEADER: "one", KEY_HEADER: str(number)}
        async with client.post(
            f"{gateway.url}/v1/completions", json={"model": "tiny"}, headers=headers
        ) as response:
            seen.add((await response.json())["marker"])
    assert len(seen) == 1


async def test_other_routing_applies_to_requests_that_follow(
    gateway: Gateway, replicas: list[FakeReplica]
) -> None:
    await serve(gateway, replicas, Routing(policy="least_request"))
    spread = await placement(gateway, 40)
    await serve(gateway, replicas)
    assert await placement(gateway, 40) == await placement(gateway, 40)
    assert len(set(spread.values())) > 3


@pytest.mark.parametrize(
    "weights", [[100] * REPLICAS, [100, 30, 60, 100, 90, 40, 100, 100, 70, 50]]
)
async def test_the_control_plane_knows_where_envoy_sends_a_key(
    gateway: Gateway, replicas: list[FakeReplica], weights: list[int]
) -> None:
    model = route("tiny", routing=UNBOUNDED)
    endpoints = tuple(
        replace(named(replica), weight=weight)
        for replica, weight in zip(replicas, weights, strict=True)
    )
    await gateway.apply(model, **{CLUSTER: endpoints})
    by_envoy = await placement(gateway, 400)

    table = RoutingTable((model,), {CLUSTER.replace("_", "-"): endpoints})
    found = {key: predicted(model, table, key)["backends"][0] for key in list(by_envoy)[:60]}

    assert {key: each["chosen"]["session"] for key, each in found.items()} == {
        key: by_envoy[key] for key in found
    }
    shares = [each["share"] for each in found["session 0"]["replicas"]]
    assert shares == pytest.approx([weight / sum(weights) for weight in weights], abs=0.001)


async def test_the_control_plane_knows_where_envoy_sends_a_user(
    gateway: Gateway, replicas: list[FakeReplica], client: aiohttp.ClientSession
) -> None:
    model = route("tiny", routing=Routing(key="user", bound_percent=10_000))
    endpoints = tuple(map(named, replicas))
    await gateway.apply(model, **{CLUSTER: endpoints})
    table = RoutingTable((model,), {CLUSTER.replace("_", "-"): endpoints})
    for user in ("ada", "bob", "someone else"):
        body = {"model": "tiny", "user": user}
        async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
            marker = (await response.json())["marker"]
        assert predicted(model, table, user)["backends"][0]["chosen"] == {"user": marker}
