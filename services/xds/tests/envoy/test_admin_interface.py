# mypy: disable-error-code="import-untyped"
"""What a real Envoy lets others do on its metrics port, with the platform's bootstrap."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
import ssl
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hang import HANG_S
from support.bootstrap import own_der
from support.gateway import GATEWAY, Gateway, gateway
from support.issued import Certificates
from support.waiting import ADDRESS, eventually

pytestmark = pytest.mark.binaries

READABLE = {"/stats/prometheus", "/clusters", "/ready"}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")

# Pages of Envoy 1.40; the tests below read the list from Envoy itself.
MUTATING = {
    *("/quitquitquit", "/drain_listeners", "/healthcheck/fail", "/healthcheck/ok", "/logging"),
    *("/reset_counters", "/reopen_logs", "/runtime_modify"),
    *("/cpuprofiler", "/heapprofiler", "/allocprofiler"),
    *("/stats/recentlookups/clear", "/stats/recentlookups/disable"),
    "/stats/recentlookups/enable",
}
SECRET = {"/config_dump", "/certs", "/server_info", "/memory", "/runtime", "/contention", "/stats"}


async def pages(gateway: Gateway) -> dict[str, bool]:
    """Every page of the admin interface, and whether it changes something."""
    text = await gateway.admin("/help")
    found = re.findall(r"^  (/\S*?)( \(POST\))?: ", text, re.MULTILINE)
    return {path: bool(post) for path, post in found}


async def forwarded(gateway: Gateway) -> int:
    """Requests that the metrics port has passed on to the admin interface."""
    return await gateway.stat("cluster.admin.upstream_rq_total") or 0


async def send(gateway: Gateway, request: str) -> tuple[int, str]:
    """Status and body of the answer to exactly this text."""
    reader, writer = await asyncio.open_connection(
        ADDRESS, gateway.metrics_port, ssl=gateway.reader
    )
    writer.write(request.encode())
    try:
        async with asyncio.timeout(HANG_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            ends = re.search(r"content-length: (\d+)", head)
            body = await (reader.readexactly(int(ends[1])) if ends else reader.readuntil(b"0\r\n"))
    finally:
        writer.close()
    return int(head.split()[1]), body.decode()


async def test_its_pages_are_those_that_these_tests_know(gateway: Gateway) -> None:
    """A new version of Envoy with another page that changes something is looked at by a person."""
    found = await pages(gateway)

    assert {path for path, changes in found.items() if changes} == MUTATING
    assert found.keys() >= READABLE | SECRET


async def test_no_other_page_is_reached_with_any_method(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    refused = (await pages(gateway)).keys() - READABLE
    assert refused >= MUTATING | SECRET
    asked = list(itertools.product(METHODS, refused))
    before = await forwarded(gateway)

    answers = {}
    for method, path in asked:
        async with client.request(
            method, f"{gateway.metrics_url}{path}", ssl=gateway.reader
        ) as response:
            answers[method, path] = response.status

    assert answers == dict.fromkeys(asked, 404)
    assert await forwarded(gateway) == before
    assert await _still_answers(gateway, client)


async def test_the_three_pages_for_reading_answer(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    async def read(path: str) -> str:
        async with client.get(f"{gateway.metrics_url}{path}", ssl=gateway.reader) as response:
            assert response.status == 200, path
            return await response.text()

    used = await read("/stats/prometheus?usedonly")
    clusters = json.loads(await read("/clusters?format=json"))["cluster_statuses"]

    assert "\nenvoy_server_live{} 1\n" in used
    assert len(used) < len(await read("/stats/prometheus"))
    assert {"xds", "admin"} <= {cluster["name"] for cluster in clusters}
    assert await read("/ready") == "LIVE\n"


async def test_they_can_only_be_read(gateway: Gateway, client: aiohttp.ClientSession) -> None:
    asked = [(method, path) for method in METHODS if method != "GET" for path in READABLE]
    before = await forwarded(gateway)

    answers = {}
    for method, path in asked:
        async with client.request(
            method, f"{gateway.metrics_url}{path}?usedonly", ssl=gateway.reader
        ) as response:
            answers[method, path] = (response.status, response.headers["Allow"])

    assert answers == dict.fromkeys(asked, (405, "GET"))
    assert await forwarded(gateway) == before


HOST = "Host: a\r\nConnection: close\r\n"
WEBSOCKET = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
TWO_LENGTHS = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
REFUSED = [
    ("a path above", "GET /ready/../quitquitquit HTTP/1.1", "", 404),
    ("an encoded path above", "POST /stats/prometheus/..%2fquitquitquit HTTP/1.1", "", 404),
    ("encoded dots", "POST /stats/prometheus/%2e%2e/%2e%2e/quitquitquit HTTP/1.1", "", 404),
    ("two slashes", "POST //quitquitquit HTTP/1.1", "", 404),
    ("two slashes before a page for reading", "GET //ready HTTP/1.1", "", 404),
    ("an encoded slash", "GET /stats%2fprometheus HTTP/1.1", "", 404),
    ("a backslash", "POST /ready\\..\\quitquitquit HTTP/1.1", "", 404),
    ("a page below", "GET /stats/prometheus/x HTTP/1.1", "", 404),
    ("a last slash", "GET /ready/ HTTP/1.1", "", 404),
    ("an encoded letter", "GET /%72eady HTTP/1.1", "", 404),
    ("an encoded question mark", "GET /ready%3f/../quitquitquit HTTP/1.1", "", 404),
    ("capitals", "GET /READY HTTP/1.1", "", 404),
    ("a parameter of the path", "GET /ready;/../quitquitquit HTTP/1.1", "", 404),
    ("a whole address", "POST http://a/quitquitquit HTTP/1.1", "", 404),
    ("a host that is a path", "POST http://a/ready/../quitquitquit HTTP/1.1", "", 404),
    ("no path", "OPTIONS * HTTP/1.1", "", 404),
    ("CONNECT", "CONNECT a:80 HTTP/1.1", "", 404),
    ("CONNECT to a page", "CONNECT /quitquitquit HTTP/1.1", "", 400),
    ("another protocol", "GET /ready HTTP/1.1", WEBSOCKET, 403),
    ("HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", "", 400),
    ("two lengths", "GET /ready HTTP/1.1", TWO_LENGTHS, 400),
    ("a method in a header", "POST /ready HTTP/1.1", "X-HTTP-Method-Override: GET\r\n", 405),
]


async def test_no_spelling_of_a_request_reaches_another_page(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    before = await forwarded(gateway)

    answers = {
        what: (await send(gateway, f"{line}\r\n{headers}{HOST}\r\n"))[0]
        for what, line, headers, _ in REFUSED
    }

    assert answers == {what: status for what, _, _, status in REFUSED}
    assert await forwarded(gateway) == before
    assert await _still_answers(gateway, client)


UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"
OTHER_STATISTICS = "x-envoy-upstream-alt-stat-name: other\r\n"
IGNORED = {
    "another path": "x-envoy-original-path: /quitquitquit\r\nX-Original-URL: /quitquitquit\r\n",
    "another method": "X-HTTP-Method-Override: POST\r\n",
    "HTTP/2": UPGRADE,
    "statistics under another name": OTHER_STATISTICS,
    "the same from inside": f"x-forwarded-for: 127.0.0.1\r\n{OTHER_STATISTICS}",
}


async def test_headers_do_not_change_what_a_request_asks_for(gateway: Gateway) -> None:
    for what, headers in IGNORED.items():
        before = await forwarded(gateway)

        status, body = await send(gateway, f"GET /ready HTTP/1.1\r\nHost: a\r\n{headers}\r\n")

        assert (status, "LIVE" in body) == (200, True), what
        assert await forwarded(gateway) == before + 1, what
    assert await gateway.admin("/stats?filter=cluster.admin.other") == ""


async def test_a_request_inside_the_body_of_another_is_not_one(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    inner = "POST /quitquitquit HTTP/1.1\r\nHost: a\r\n\r\n"

    async with client.get(
        f"{gateway.metrics_url}/ready", data=inner, ssl=gateway.reader
    ) as response:
        assert response.status == 200

    assert await _still_answers(gateway, client)


# Who asks: a name and an address in its certificate, and the status of the answer.
READERS = {
    "Prometheus": ("prometheus.test.slipway", "", 200),
    "the operator": ("operator.test.slipway", "", 200),
    "the node itself": ("client.global.nomad", ADDRESS, 200),
    "another node": ("client.global.nomad", "127.94.0.3", None),
    "a replica's node": ("replica.test.slipway", "127.94.0.3", None),
    "Prometheus of another environment": ("prometheus.dev.slipway", "", None),
    "a certificate without a name": ("", "", None),
}


async def test_only_those_who_have_to_read_it_may(gateway: Gateway) -> None:
    answers = {}
    for who, (dns_name, address, _) in READERS.items():
        shown = gateway.certificates.issue(who, dns_name, address)
        answers[who] = await _asked(gateway, gateway.certificates.client(shown))

    assert answers == {who: status for who, (_, _, status) in READERS.items()}


async def test_strangers_and_plain_text_are_refused(gateway: Gateway, tmp_path: Path) -> None:
    name = "prometheus.test.slipway"
    stranger = Certificates(tmp_path / "others").issue("prometheus", name)
    expired = gateway.certificates.issue("expired", name, days=-1)
    before = await forwarded(gateway)

    sibling = gateway.certificates.authority.sibling()
    of_sibling = gateway.certificates.issue("sibling", name, by=sibling)
    for shown in (stranger, of_sibling, expired, None):
        assert await _asked(gateway, gateway.certificates.client(shown)) is None, shown
    assert await _asked(gateway, None) is None
    assert await forwarded(gateway) == before


async def test_a_renewed_certificate_is_shown_to_the_next_reader(gateway: Gateway) -> None:
    gateway.certificates.issue("gateway", GATEWAY, ADDRESS, days=2)
    renewed = (gateway.certificates.folder / "gateway/cert.pem").read_text()

    async def shown() -> bool:
        _, writer = await asyncio.open_connection(ADDRESS, gateway.metrics_port, ssl=gateway.reader)
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bool(certificate == own_der(renewed))

    await eventually(shown, "the renewed one is shown")


async def test_only_envoys_user_can_open_its_socket(gateway: Gateway) -> None:
    mode = Path(gateway.admin_socket).stat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


async def test_the_socket_of_a_killed_envoy_does_not_stop_the_next_one(tmp_path: Path) -> None:
    async with gateway(tmp_path) as killed:
        killed.envoy.kill()
        await killed.envoy.wait()
    (left_over,) = tmp_path.glob("*.sock")
    assert left_over.is_socket()

    async with gateway(tmp_path) as started:
        assert Path(started.admin_socket).samefile(left_over)
        assert await started.stat("server.live") == 1


async def test_what_it_forwards_has_no_limit_and_is_not_counted_as_the_gateways(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    clients = await gateway.stat("http.gateway.downstream_rq_total")

    async with client.get(f"{gateway.metrics_url}/clusters", ssl=gateway.reader) as response:
        shown = await response.text()

    for limit in ("max_connections", "max_pending_requests", "max_requests"):
        assert f"\nadmin::default_priority::{limit}::{2**32 - 1}\n" in f"\n{shown}"
    assert await gateway.stat("http.gateway.downstream_rq_total") == clients
    assert await gateway.stat("http.metrics.downstream_rq_total") == 1


async def test_an_envoy_short_of_memory_can_be_observed(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    pressure = tmp_path / "pressure"
    pressure.write_text("0")

    def inject(bootstrap: dict[str, Any]) -> None:
        heap, _ = bootstrap["overload_manager"]["resource_monitors"]
        kind = "envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig"
        config = {"@type": f"type.googleapis.com/{kind}", "filename": str(pressure)}
        heap["typed_config"] = config

    async with gateway(tmp_path, change=inject) as started:
        (tmp_path / "next").write_text("1")
        (tmp_path / "next").rename(pressure)  # Envoy notices a file that is replaced
        refuses = functools.partial(_gateway_says, 503, started, client)
        await eventually(refuses, "Envoy refuses its clients' requests")

        assert await _still_answers(started, client)


async def test_an_envoy_with_all_its_connections_in_use_can_be_observed(
    tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    def allow_one(bootstrap: dict[str, Any]) -> None:
        _, connections = bootstrap["overload_manager"]["resource_monitors"]
        connections["typed_config"]["max_active_downstream_connections"] = 1

    async with gateway(tmp_path, change=allow_one) as started:
        answers = functools.partial(_gateway_says, 200, started, client)
        await eventually(answers, "the client has the only connection")
        second, writer = await asyncio.open_connection(ADDRESS, started.address.port)
        assert await asyncio.wait_for(second.read(), HANG_S) == b"", "it is closed"
        writer.close()

        assert await _still_answers(started, client)


async def _asked(gateway: Gateway, context: ssl.SSLContext | None) -> int | None:
    """The status of an answer; None if the connection is refused."""
    scheme = "http" if context is None else "https"
    url = f"{scheme}://{ADDRESS}:{gateway.metrics_port}/ready"
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.get(url, ssl=context or True) as response,
        ):
            return response.status
    except aiohttp.ClientError:
        return None


async def _gateway_says(status: int, gateway: Gateway, client: aiohttp.ClientSession) -> bool:
    try:
        async with client.get(f"{gateway.url}/healthz") as response:
            return response.status == status
    except aiohttp.ClientError:
        return False


async def _still_answers(gateway: Gateway, client: aiohttp.ClientSession) -> bool:
    async with client.get(f"{gateway.metrics_url}/ready", ssl=gateway.reader) as response:
        text = await response.text()
    return (text, response.status, gateway.envoy.returncode) == ("LIVE\n", 200, None)
