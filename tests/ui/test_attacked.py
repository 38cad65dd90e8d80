"""The page under attack: what other sites, programs and names can get or change through it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from cli.ui.origins import PROXIED
from tests.ui.attacks import REFUSED
from tests.ui.fake_platform import METHODS, TOKEN
from tests.ui.served_page import ServedPage, served
from tests.waiting import HANG_S

SCRIPT = "<script>alert(1)</script>"
EVERYWHERE = ("", *PROXIED)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with served(["llama", SCRIPT], tmp_path_factory.mktemp("dev")) as page:
        yield page


@pytest.fixture(autouse=True)
def nothing_is_changed(page: ServedPage) -> Iterator[None]:
    """Whatever a test sends."""
    page.platform.seen.clear()
    yield
    assert page.platform.changing() == []


@pytest.fixture
def front(page: ServedPage) -> Iterator[httpx.Client]:
    with page.visitor() as visitor:
        yield visitor


def csrf_of(front: httpx.Client) -> str:
    return front.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]


def question(**changed: str) -> dict[str, str]:
    return {"model": "llama", "prompt": "Who?", "max_tokens": "16"} | changed


@pytest.mark.parametrize("upstream", EVERYWHERE)
@pytest.mark.parametrize(
    "path", ["/", "/events", "/charts", "/static/page.css", "/ui/", "/v1/jobs"]
)
def test_without_a_session_nothing_is_shown(page: ServedPage, upstream: str, path: str) -> None:
    host = page.origin(upstream).host
    answer = httpx.get(page.url + path, headers={"Host": host}, verify=False, trust_env=False)
    assert answer.status_code == 401
    assert "llama" not in answer.text
    assert page.platform.seen == []


OTHER_HOSTS = (
    "evil.example",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost",
    "nomad.localhost",
    "x.localhost:{port}",
    "127.0.0.1:{port}",
    "localhost:{port}",
    "slipway.localhost:{port}",
    "nomad.localhost:{port}",
    "[::1]:{port}",
    "127.0.0.1:{port}.evil.example",
    "",
)


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_another_host_is_refused_even_with_a_session(page: ServedPage, host: str) -> None:
    with page.visitor() as visitor:
        answer = visitor.get("/", headers={"Host": host.format(port=page.port)})
    assert answer.status_code == 421
    assert "llama" not in answer.text


def test_two_hosts_are_refused(page: ServedPage) -> None:
    with socket.create_connection(("127.0.0.1", page.port)) as connection:
        own = page.origin("").host
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {own}\r\nHost: evil\r\n\r\n".encode())
        assert connection.recv(100).split()[1] in {b"400", b"421"}


def test_a_token_works_once(page: ServedPage) -> None:
    address = page.another_address()
    assert page.get(address).status_code == 200
    assert page.get(address).status_code == 401


def test_a_request_that_does_not_read_leaves_the_token_good(page: ServedPage) -> None:
    address = page.another_address()
    assert page.get(address, "HEAD").status_code == 401
    assert page.get(address).status_code == 200


@pytest.mark.parametrize("token", ["", "x", "%00", "a" * 5000])
def test_a_wrong_token_gives_no_session(page: ServedPage, token: str) -> None:
    answer = page.get(f"/enter?token={token}")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_token_of_one_origin_is_no_token_of_another(page: ServedPage) -> None:
    address = page.another_address("nomad")
    assert page.get(address).status_code == 401


def test_the_session_of_one_origin_is_none_at_another(page: ServedPage) -> None:
    with page.visitor("nomad") as visitor:
        answer = visitor.get("/", headers={"Host": page.origin("").host})
    assert answer.status_code == 401


def test_the_session_is_kept_from_scripts_and_other_sites(page: ServedPage) -> None:
    answer = page.get(page.another_address())
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert not any(part.startswith("domain") for part in attributes)


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_the_way_on_stays_within_the_page(page: ServedPage, place: str) -> None:
    address = page.another_address()
    answer = page.get("/enter", params={"token": address.partition("=")[2], "to": place})
    assert 'content="0; url=/"' in answer.text
    assert "evil" not in answer.text


@pytest.mark.parametrize("upstream", EVERYWHERE)
def test_every_answer_has_a_policy_and_is_kept_nowhere(page: ServedPage, upstream: str) -> None:
    with page.visitor(upstream) as visitor:
        answers = [
            visitor.get("/"),
            visitor.get("/missing"),
            visitor.post("/"),
            visitor.get("/ui/"),
        ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "http" not in policy
        assert "*" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == ("no-referrer" if upstream else "same-origin")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_itself_allows_no_script_or_style_in_its_html(front: httpx.Client) -> None:
    answer = front.get("/")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "<style" not in answer.text
    assert "style=" not in answer.text


def test_a_model_named_like_a_script_is_shown_as_text(front: httpx.Client) -> None:
    text = front.get("/").text
    assert "alert(1)" in text
    assert SCRIPT not in text
    with front.stream("GET", "/events") as stream:
        line = next(line for line in stream.iter_lines() if line.startswith("data:"))
    assert all(SCRIPT not in part["html"] for part in json.loads(line[5:])["parts"])


def test_a_filter_like_a_script_is_shown_as_text(front: httpx.Client) -> None:
    for name in (f'">{SCRIPT}', f"'{SCRIPT}"):
        text = front.get("/", params={"name": name}).text
        assert "alert(1)" in text
        assert SCRIPT not in text


@pytest.mark.parametrize("method", [*METHODS[2:], "TRACE", "PROPFIND"])
@pytest.mark.parametrize("upstream", EVERYWHERE)
def test_methods_that_change_things_are_refused(
    page: ServedPage, upstream: str, method: str
) -> None:
    origin = page.origin(upstream)
    with page.visitor(upstream) as visitor:
        for path in ("/", "/v1/jobs", "/v1/job/x", "/v1/kv/x", "/api/v1/query", "/-/reload"):
            answer = visitor.request(method, path, headers={"Origin": origin.url}, content=b"{}")
            assert answer.status_code == 405, path
    assert [each for each in page.platform.seen if each.path != "/v1/jobs?meta=true"] == []


@pytest.mark.parametrize(
    ("upstream", "path"), [(name, path) for name in REFUSED for path in REFUSED[name]]
)
def test_what_shows_secrets_or_opens_a_shell_is_not_sent_on(
    page: ServedPage, upstream: str, path: str
) -> None:
    with page.visitor(upstream) as visitor:
        page.platform.seen.clear()
        host = page.origin(upstream).host
        answer = as_it_is(page.port, path, host, visitor.headers["Cookie"])
    assert answer.split()[1] in {b"400", b"403"}, answer
    assert page.platform.seen == []


def as_it_is(port: int, path: str, host: str, cookie: str) -> bytes:
    """The beginning of the answer to a GET; clients would tidy the path up."""
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", f"Cookie: {cookie}", "Connection: close")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection.recv(200)


@pytest.mark.parametrize("upstream", ["", "nomad", "consul"])
def test_a_websocket_is_refused(page: ServedPage, upstream: str) -> None:
    with page.visitor(upstream) as visitor:
        page.platform.seen.clear()
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        path = "/v1/client/allocation/4bb239af/exec"
        answer = visitor.get(path, headers=upgrade)
    assert answer.status_code in {403, 404}
    assert page.platform.seen == []


def test_only_what_a_page_needs_is_sent_on(page: ServedPage) -> None:
    with page.visitor("nomad") as visitor:
        page.platform.seen.clear()
        sent = {"X-Nomad-Token": "mine", "X-HTTP-Method-Override": "DELETE", "Referer": "http://e/"}
        answer = visitor.get("/v1/jobs", params={"index": "7"}, headers=sent)
    (seen,) = page.platform.seen
    assert (seen.method, seen.path) == ("GET", "/v1/jobs?index=7")
    assert seen.headers["x-nomad-token"] == TOKEN
    assert not {"cookie", "referer", "x-http-method-override", "upgrade"} & seen.headers.keys()
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text + str(answer.headers)


def test_nomads_page_is_told_of_reading_rights_and_of_no_token(page: ServedPage) -> None:
    with page.visitor("nomad") as visitor:
        page.platform.seen.clear()
        token = visitor.get("/v1/acl/token/self").json()
        policy = visitor.get(f"/v1/acl/policy/{token['Policies'][0]}").json()
    assert token["SecretID"] == ""
    assert token["Type"] == "client"
    (namespace,) = policy["RulesJSON"]["Namespaces"]
    assert set(namespace["Capabilities"]) == {"list-jobs", "read-job", "read-logs"}
    assert page.platform.seen == []


def test_consuls_page_is_told_of_reading_rights(page: ServedPage) -> None:
    asked = [
        {"Resource": resource, "Access": access}
        for resource in ("node", "key", "acl", "operator")
        for access in ("read", "write")
    ]
    origin = page.origin("consul")
    with page.visitor("consul") as visitor:
        page.platform.seen.clear()
        answer = visitor.post(
            "/v1/internal/acl/authorize", json=asked, headers={"Origin": origin.url}
        )
    allowed = [(each["Resource"], each["Access"]) for each in answer.json() if each["Allow"]]
    assert allowed == [("node", "read")]
    assert page.platform.seen == []


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://nomad.localhost"])
def test_no_other_site_can_ask_a_model_or_for_jobs(page: ServedPage, origin: str | None) -> None:
    named = {"Origin": origin} if origin else {}
    with page.visitor() as front, page.visitor("nomad") as nomad:
        asked = question(csrf=csrf_of(front))
        page.platform.seen.clear()
        assert front.post("/chat", data=asked, headers=named).status_code == 403
        assert nomad.post("/v1/jobs/statuses", json={}, headers=named).status_code == 403
    assert page.platform.seen == []


@pytest.mark.parametrize("csrf", ["", "guessed", "é"])
def test_a_form_without_the_pages_own_mark_is_refused(
    page: ServedPage, front: httpx.Client, csrf: str
) -> None:
    own = {"Origin": page.origin("").url}
    assert front.post("/chat", data=question(csrf=csrf), headers=own).status_code == 403
    assert page.platform.seen == []


def test_what_another_site_embeds_is_refused(page: ServedPage, front: httpx.Client) -> None:
    for mode, kind in (("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
        assert front.get("/", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "missing"},
        {"prompt": "  "},
        {"prompt": "x" * 100_001},
        {"max_tokens": "0"},
        {"max_tokens": "-1"},
        {"max_tokens": "many"},
        {"max_tokens": "99999"},
        {"max_tokens": "٣"},
        {"max_tokens": "9" * 5_000},
    ],
)
def test_a_wrong_question_reaches_no_model(
    page: ServedPage, front: httpx.Client, wrong: dict[str, str]
) -> None:
    asked = question(csrf=csrf_of(front), **wrong)
    page.platform.seen.clear()
    answer = front.post("/chat", data=asked, headers={"Origin": page.origin("").url})
    assert answer.status_code == 422
    assert page.platform.seen == []


def test_a_form_of_any_length_is_not_read(page: ServedPage, front: httpx.Client) -> None:
    own = {"Origin": page.origin("").url}
    answer = front.post("/chat", data={"prompt": "x" * 500_000}, headers=own)
    assert answer.status_code == 413


@pytest.mark.parametrize("lengths", [{}, {"Content-Length": "5"}], ids=["chunked", "both"])
@pytest.mark.parametrize(
    ("upstream", "path", "length"),
    [
        ("", "/chat", 400_001),
        ("nomad", "/v1/jobs/statuses", 1_000_001),
        ("consul", "/v1/internal/acl/authorize", 1_000_001),
    ],
)
def test_a_body_of_an_unknown_length_is_read_up_to_a_limit(
    page: ServedPage, upstream: str, path: str, length: int, lengths: dict[str, str]
) -> None:
    with page.visitor(upstream) as visitor:
        fields = {
            **lengths,
            "Host": page.origin(upstream).host,
            "Origin": page.origin(upstream).url,
            "Cookie": visitor.headers["Cookie"],
            "Content-Type": "application/x-www-form-urlencoded",
            "Transfer-Encoding": "chunked",
        }
        page.platform.seen.clear()
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        with socket.create_connection(("127.0.0.1", page.port)) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n{length:x}\r\n".encode())
            connection.sendall(b"x" * length)  # and no end
            connection.settimeout(HANG_S)
            assert connection.recv(200).split()[1] in {b"400", b"413"}
    assert page.platform.seen == []


@pytest.mark.parametrize(
    "asked", [{"Access": ["read"], "Resource": "node"}, {"Access": "read", "Resource": {}}]
)
def test_a_question_about_rights_of_wrong_types_is_denied(
    page: ServedPage, asked: dict[str, object]
) -> None:
    own = {"Origin": page.origin("consul").url}
    with page.visitor("consul") as visitor:
        answer = visitor.post("/v1/internal/acl/authorize", json=[asked], headers=own)
    assert answer.json() == [{**asked, "Allow": False}]


def test_a_deep_question_about_rights_is_no_question(page: ServedPage) -> None:
    own = {"Origin": page.origin("consul").url}
    with page.visitor("consul") as visitor:
        answer = visitor.post("/v1/internal/acl/authorize", content="[" * 100_000, headers=own)
    assert answer.json() == []


def test_a_query_that_is_no_part_of_an_address_is_refused(page: ServedPage) -> None:
    with page.visitor("nomad") as visitor:
        page.platform.seen.clear()
        answer = as_it_is(
            page.port, "/v1/jobs?a=#b", visitor.headers["Host"], visitor.headers["Cookie"]
        )
    assert answer.split()[1] == b"400"
    assert page.platform.seen == []


def test_a_question_is_answered_as_events_and_as_a_page(
    page: ServedPage, front: httpx.Client
) -> None:
    own = {"Origin": page.origin("").url}
    asked = question(csrf=csrf_of(front))
    events = front.post("/chat", data=asked, headers={**own, "Accept": "text/event-stream"})
    told = [json.loads(line[6:]) for line in events.text.splitlines() if line]
    assert (
        "".join(each.get("text", "") for each in told) == "Paris is the capital <b>of</b> France."
    )
    assert told[-1]["figures"].startswith("TTFT ")
    assert "12 tokens" in told[-1]["figures"]
    whole = front.post("/chat", data=asked, headers=own).text
    assert "Paris is the capital &lt;b&gt;of&lt;/b&gt; France." in whole
    assert "tokens/s" in whole


def test_the_way_to_another_page_has_a_token_for_it(page: ServedPage, front: httpx.Client) -> None:
    for name, place in (("nomad", "/ui/jobs"), ("consul", "/ui/")):
        answer = front.get(f"/open/{name}", follow_redirects=False)
        address = httpx.URL(answer.headers["location"])
        origin = page.origin(name)
        assert str(address).startswith(f"{origin.url}/enter?")
        assert address.params["to"] == place
        entered = front.get(
            f"{page.url}/enter", params=address.params, headers={"Host": origin.host}
        )
        assert entered.status_code == 200


def test_the_way_to_another_page_is_open_for_a_minute(
    page: ServedPage, front: httpx.Client
) -> None:
    printed = page.another_address()
    address = httpx.URL(front.get("/open/nomad", follow_redirects=False).headers["location"])
    page.clock.ahead_s += 61
    late = front.get("/enter", params=address.params, headers={"Host": page.origin("nomad").host})
    assert late.status_code == 401
    assert page.get(printed).status_code == 200


def test_a_build_without_pages_says_so(front: httpx.Client) -> None:
    answer = front.get("/open/prometheus", follow_redirects=False)
    assert answer.status_code == 502
    assert "has no pages" in answer.text
