"""The page of `slipway ui` on a real platform: what it shows, and that it changes nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.live.environments import Platform
from tests.ui.attacks import REFUSED
from tests.waiting import HANG_S

pytestmark = pytest.mark.live

TIDIED = re.compile(r"/\.\./|^//")  # by httpx; tests/ui sends these as they are


@pytest.fixture(scope="module")
def address(platform: Platform) -> Iterator[httpx.URL]:
    """The printed address, unused."""
    command = subprocess.Popen(
        platform.command("ui", "--json"),
        cwd=platform.checkout,
        env=platform.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    try:
        yield httpx.URL(json.loads(command.stdout.readline())["url"])
    finally:
        command.send_signal(signal.SIGINT)
        assert command.wait(HANG_S) == 0


@pytest.fixture(scope="module")
def page(address: httpx.URL) -> Iterator[httpx.Client]:
    with visitor(address) as visiting:
        yield visiting


@contextmanager
def visitor(address: httpx.URL) -> Iterator[httpx.Client]:
    """A client with the session that an address gives, which names its host in each request."""
    headers = {"Host": f"{address.host}:{address.port}"}
    headers["Origin"] = f"http://{headers['Host']}"
    base = f"http://127.0.0.1:{address.port}"
    with httpx.Client(base_url=base, headers=headers, timeout=HANG_S, trust_env=False) as client:
        entered = client.get(address.path, params=address.params).raise_for_status()
        client.headers["Cookie"] = entered.headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        yield client


def test_it_shows_what_status_says_and_asks_a_model(platform: Platform, page: httpx.Client) -> None:
    status, text = platform.status(), page.get("/").text
    for key in ("nodes", "jobs", "replicas"):
        assert status[key]
        for each in status[key]:
            assert (each.get("name") or each["id"]) in text
    assert all(model in text for model in status["models"])
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf is not None
    asked = {"csrf": csrf[1], "model": "smollm2", "prompt": "What is the capital of France?"}
    answer = page.post("/chat", data=asked).text
    assert "Paris" in answer
    assert re.search(r"TTFT [\d,]+ ms, \d+ tokens, [\d.,]+ tokens/s", answer)


def test_nothing_can_be_changed_or_learnt_through_it(
    platform: Platform, page: httpx.Client
) -> None:
    before = state_of(platform)
    secrets = [platform.token("nomad"), platform.token("consul")]
    for name in ("nomad", "consul"):
        way = page.get(f"/open/{name}", follow_redirects=False)
        with visitor(httpx.URL(way.headers["location"])) as visiting:
            assert visiting.get("/ui/").is_success
            answers = [visiting.get(path) for path in REFUSED[name] if not TIDIED.search(path)]
            assert {answer.status_code for answer in answers} == {403}
            told = visiting.get("/v1/acl/token/self")
            for method, path in changing(platform):
                assert visiting.request(method, path, content=b"{}").status_code == 405, path
        assert not any(secret in each.text for secret in secrets for each in (*answers, told))
    assert state_of(platform) == before


def changing(platform: Platform) -> Iterator[tuple[str, str]]:
    """What would change this platform by the operator's token."""
    job, allocation, node = (
        platform.nomad(kind)[0]["ID"] for kind in ("jobs", "allocations", "nodes")
    )
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        yield method, f"/v1/job/{job}"
        yield method, f"/v1/job/{job}/scale"
        yield method, f"/v1/node/{node}/eligibility"
        yield method, f"/v1/allocation/{allocation}/stop"
        yield method, "/v1/acl/token"
        yield method, "/v1/system/gc"
        yield method, "/v1/kv/slipway"
        yield method, "/v1/catalog/deregister"


def state_of(platform: Platform) -> dict[str, Any]:
    """What an attack could change, and the autoscaler does not."""
    return {
        "jobs": sorted((job["ID"], job["Stop"]) for job in platform.nomad("jobs")),
        "nodes": sorted(
            (n["ID"], n["SchedulingEligibility"], n["Drain"]) for n in platform.nomad("nodes")
        ),
        "tokens": sorted(token["AccessorID"] for token in platform.nomad("acl/tokens")),
        "variables": [(v["Path"], v["ModifyIndex"]) for v in platform.nomad("vars")],
        "consul": sorted(token["AccessorID"] for token in platform.consul("acl/tokens")),
    }
