# mypy: disable-error-code="import-untyped"
"""The whole program: a real Consul, xds.py as a process, a real Envoy."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import tritonclient.grpc.aio as triton
from support.consul import consul
from support.fake_replica import FakeReplica
from support.load import load
from support.platform import ROUTE, Platform, started
from support.waiting import eventually

pytestmark = pytest.mark.binaries

ROUTES_OF_VERSION_3 = Path(__file__).parents[1] / "documents" / "routes-version-3.json"


async def test_from_registration_to_deregistration(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    """A model appears, a replica fails and recovers, another comes, one leaves, the model goes."""
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")
        assert await platform.complete() == (200, {"marker": "blue", "model": "tiny"})

        await agent.set_check(blue.http_port, "critical")
        await _endpoints_are(platform, {blue.http_port: False})
        assert (await platform.complete())[0] == 503
        assert not await platform.ready()

        await agent.set_check(blue.http_port, "warning")
        await agent.set_check(blue.http_port, "passing")
        await platform.register(green)
        await _endpoints_are(platform, {blue.http_port: True, green.http_port: True})

        await agent.deregister("model-tiny-1-openai", blue.http_port)
        await _endpoints_are(platform, {green.http_port: True})
        assert await platform.complete() == (200, {"marker": "green", "model": "tiny"})

        await agent.delete_route("tiny")
        await eventually(lambda: _serves(platform, []), "the model is gone")
        # Its scope goes once Envoy has acknowledged the list without it.
        await eventually(lambda: _answers(platform, 404), "requests for it are refused")


async def test_replicas_that_consul_loses_all_at_once_are_asked_by_the_gateway_itself(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    """They are in use as long as they answer, and until they are taken out on purpose."""
    both = (blue, green)
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        for each in both:
            await platform.register(each, liveness_port=str(each.http_port), replica=each.marker)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")

        async with load(platform.url, "tiny") as outcomes:
            for each in both:
                await agent.set_check(each.http_port, "critical")
            await _endpoints_are(platform, {each.http_port: False for each in both})
            before = outcomes.copy()
            await eventually(
                lambda: all(outcomes[each.marker] - before[each.marker] > 20 for each in both),
                "both go on answering",
            )
        assert set(outcomes) == {"blue", "green"}
        assert await _held(platform) == {each.http_port for each in both}
        assert "takes 2 of 2 replicas for unhealthy" in (tmp_path / "xds.log").read_text()
        assert 'slipway_xds_held_replicas{model="tiny"} 2.0' in await platform.text("/metrics")
        assert not await platform.ready()

        green.moving = False  # its own page takes it out, as always
        await eventually(lambda: _answers_only(platform, "blue"), "the other one answers")
        await agent.maintenance("model-tiny-1-openai", blue.http_port)
        await eventually(lambda: _answers(platform, 503), "it is out of use")
        assert await _held(platform) == {green.http_port}

        for each in both:
            await agent.set_check(each.http_port, "passing")
        await eventually(lambda: _holds_nobody(platform), "none is held any more")


async def test_a_document_of_version_3_is_served_over_both_protocols(
    tmp_path: Path, blue: FakeReplica
) -> None:
    document = json.loads(ROUTES_OF_VERSION_3.read_text(encoding="utf-8"))["sim"]
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        await platform.register(blue, service=document["backends"][0]["service"])
        await agent.put_route(document)
        await eventually(lambda: platform.ready("sim"), "the model is ready")

        assert (await platform.complete("sim"))[1] == {"marker": "blue", "model": "sim"}
        async with triton.InferenceServerClient(platform.url.removeprefix("http://")) as client:
            answer = await client.infer("sim", inputs=[])
        assert answer.get_response().model_version == "blue"


async def test_a_bad_document_keeps_the_models_last_good_route(
    tmp_path: Path, blue: FakeReplica
) -> None:
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")

        await agent.put_route({**ROUTE, "backends": []})
        await eventually(lambda: _refused(platform, "tiny"), "the document is refused")

        assert "backends" in (await platform.status())["refused_routes"]["tiny"]
        assert (await platform.complete())[0] == 200
        await agent.put_route(ROUTE)
        await eventually(lambda: _refused(platform), "nothing is refused any more")


async def test_an_outage_of_consul_and_the_loss_of_its_state_change_nothing(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        agent = await first.enter_async_context(consul(tmp_path))
        platform = await stack.enter_async_context(started(tmp_path, agent))
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")

        async with load(platform.url, "tiny") as outcomes:
            await first.aclose()
            await eventually(lambda: _stale(platform), "the outage is noticed")
            again = consul(tmp_path, http_port=int(agent.url.rsplit(":", 1)[1]))
            platform.consul = await stack.enter_async_context(again)
            await eventually(lambda: _fresh(platform), "Consul is back, empty")
        assert set(outcomes) == {"blue"}

        await platform.consul.put_route(ROUTE)
        await platform.register(green)
        await _endpoints_are(platform, {green.http_port: True})


async def _endpoints_are(platform: Platform, expected: dict[int, bool]) -> None:
    async def same() -> bool:
        return await platform.endpoints() == expected

    await eventually(same, f"Envoy has acknowledged {expected}")


async def _held(platform: Platform) -> set[int]:
    (backend,) = (await platform.model())["backends"]
    members = backend["clusters"]["model-tiny-1-openai"]["endpoints"]
    return {member["port"] for member in members if member["held"]}


async def _holds_nobody(platform: Platform) -> bool:
    return not await _held(platform)


async def _answers_only(platform: Platform, marker: str) -> bool:
    answers = [await platform.complete() for _ in range(10)]
    return answers == [(200, {"marker": marker, "model": "tiny"})] * 10


async def _answers(platform: Platform, status: int) -> bool:
    return (await platform.complete())[0] == status


async def _serves(platform: Platform, models: list[str]) -> bool:
    async with platform.session.get(f"{platform.url}/v1/models") as response:
        return [entry["id"] for entry in (await response.json())["data"]] == models


async def _refused(platform: Platform, *models: str) -> bool:
    return sorted((await platform.status())["refused_routes"]) == sorted(models)


async def _stale(platform: Platform) -> bool:
    return float((await platform.status())["consul"]["stale_s"]) > 0.3


async def _fresh(platform: Platform) -> bool:
    return float((await platform.status())["consul"]["stale_s"]) == 0
