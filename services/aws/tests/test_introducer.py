"""Only an instance of a pool's role, of this environment and account, is introduced; every refusal
is a line in the log."""

from __future__ import annotations

import dataclasses
import datetime
import http.server
import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from conftest import HANG_S, REGION, Metadata, enforce
from instance.metadata import Credentials
from instance.metadata import account as own_account
from instance.signing import signed_headers
from introducer.claims import BODY
from introducer.main import (
    INTRODUCTION,
    INTRODUCTION_PATH,
    REQUEST_PATH,
    Introducer,
    Server,
    read_settings,
)
from program.certificate import client_context
from program.http_json import Api

ACCOUNT = "123456789012"  # moto's
INSTANCE = "i-0123456789abcdef0"
NAME = "introducer.prod.slipway"


NODES = [
    {"ID": "n1", "Name": "l4-0123456789abcdef0", "Status": "ready"},
    {"ID": "n2", "Name": "l4-0123456789abcdef1", "Status": "ready"},
]


class Nomad(http.server.BaseHTTPRequestHandler):
    """Signs introductions as Nomad does (1.11.3), and has two nodes, for whoever shows the
    token."""

    asked: list[dict[str, Any]]

    def do_GET(self) -> None:
        """A node drains until the second look at it."""
        looks = self.asked.count({"looked at": self.path})
        if self.path != "/v1/nodes":
            self.asked.append({"looked at": self.path})
        self._answer(
            NODES if self.path == "/v1/nodes" else {"DrainStrategy": [{"Deadline": 1}, None][looks]}
        )

    def do_DELETE(self) -> None:
        self.asked.append({"deleted": self.path})
        self._answer({})

    def do_PUT(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.asked.append({"path": self.path, **json.loads(self.rfile.read(size) or b"{}")})
        self._answer({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == INTRODUCTION:
            self.asked.append(body)
            self._answer({"JWT": f"jwt of {body['NodeName']}"})
        else:
            self.asked.append({"path": self.path, **body})
            self._answer({})

    def _answer(self, content: Any) -> None:
        allowed = content is not None and self.headers["X-Nomad-Token"] == "a token"
        answer = json.dumps(content).encode()
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


class Site:
    """An introducer that runs, and a way to sign and send claims."""

    def __init__(self, folder: Path, aws: str, authority: Authority, roles: Mapping[str, str]):
        self.aws, self.authority, self.roles = aws, authority, roles
        self.asked: list[dict[str, Any]] = []
        handler = type("Handler", (Nomad,), {"asked": self.asked})
        self._nomad = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        document = {
            "schema_version": 1,
            "listen": {"address": "127.0.0.1", "port": 0},
            "environment": "prod",
            "region": REGION,
            "sts": "https://sts.us-east-1.amazonaws.com/",
            "pools": {"slipway-prod-pool-l4": "l4", "slipway-prod-pool-h100": "h100"},
            "ttl_s": 900,
        }
        settings = read_settings(document)
        nomad = Api(f"http://127.0.0.1:{self._nomad.server_port}", {"X-Nomad-Token": "a token"})
        self.now: datetime.datetime | None = None
        self.introducer = Introducer(settings, nomad, ACCOUNT, now=self._time)
        own = written(folder / "own", authority.issue("job", [NAME]))
        self.server = Server(settings, self.introducer, own)
        self.client = written(folder / "client", authority.issue("pool-l4"))
        for each in (self._nomad, self.server):
            threading.Thread(target=each.serve_forever, daemon=True).start()

    def _time(self) -> datetime.datetime:
        return self.now or datetime.datetime.now(datetime.timezone.utc)

    def close(self) -> None:
        for each in (self._nomad, self.server):
            each.shutdown()
            each.server_close()

    def claim(self, role: str = "slipway-prod-pool-l4", **changes: Any) -> dict[str, Any]:
        """As services/aws/joining/introduction.py makes it, but for what a test changes."""
        url = f"{self.aws}/"
        given = {
            "region": REGION,
            "service": "sts",
            "method": "POST",
            "url": url,
            "body": BODY,
            "headers": {
                "Content-Type": "application/x-www-form-urlencoded",
                "X-Slipway-Environment": "prod",
            },
        }
        session = changes.pop("session", INSTANCE)
        credentials = changes.pop("credentials", None) or self.credentials(role, session)
        headers = signed_headers(credentials, **{**given, **changes})
        return {"pool": "l4", "headers": headers}

    def credentials(self, role: str, session: str = INSTANCE) -> Credentials:
        return self.roles[role](session)  # type: ignore[operator]

    def send(
        self, claim: Any, client: Path | None = None, path: str = INTRODUCTION_PATH
    ) -> tuple[int, dict[str, str]]:
        context = client_context(client or self.client, NAME)
        address = f"https://127.0.0.1:{self.server.server_port}{path}"
        body = claim if isinstance(claim, bytes) else json.dumps(claim).encode()
        request = urllib.request.Request(address, data=body, method="POST")
        try:
            with urllib.request.urlopen(request, context=context, timeout=HANG_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def site(aws: str, account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{aws}/")
    iam, sts = account("iam"), account("sts")
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    names = ("slipway-prod-pool-l4", "slipway-prod-pool-h100", "slipway-prod-edge-0")
    arns = {}
    for name in names:
        created = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        arns[name] = created["Role"]["Arn"]

    def of(name: str) -> Any:
        def session(session: str) -> Credentials:
            found = sts.assume_role(RoleArn=arns[name], RoleSessionName=session)["Credentials"]
            return Credentials(
                access_key=found["AccessKeyId"],
                secret_key=found["SecretAccessKey"],
                token=found["SessionToken"],
            )

        return session

    made = Site(tmp_path, aws, Authority(), {name: of(name) for name in names})
    yield made
    made.close()


def test_an_instance_of_the_pools_role_is_introduced_by_its_own_name(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = site.claim()
    enforce(site.aws)
    status, answer = site.send(claim)
    assert (status, answer) == (
        200,
        {
            "host": "l4-0123456789abcdef0",
            "done": "introduced",
            "introduction": "jwt of l4-0123456789abcdef0",
        },
    )
    (asked,) = site.asked
    assert asked == {"NodeName": "l4-0123456789abcdef0", "NodePool": "l4", "TTL": "900s"}
    assert "introduced l4-0123456789abcdef0 (127.0.0.1)" in capsys.readouterr().out


OTHER_ENVIRONMENT = {
    "Content-Type": "application/x-www-form-urlencoded",
    "X-Slipway-Environment": "test",
}
HOUR_AGO = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no pool's role": (
        {"role": "slipway-prod-edge-0"},
        "edge-0 is not that of a pool",
    ),
    "another pool's role": ({"role": "slipway-prod-pool-h100"}, "that of pool h100, not of l4"),
    "no instance": ({"session": "somebody"}, "is not an instance"),
    "another environment": ({"headers": OTHER_ENVIRONMENT}, 'for environment "test"'),
    "a replay after its time": ({"now": HOUR_AGO}, "was signed 3"),
    "another service": ({"service": "ec2"}, "is signed for ec2 in us-east-1"),
    "another region": ({"region": "eu-west-1"}, "is signed for sts in eu-west-1"),
    "another address": ({"url": "https://sts.example.com/"}, "is signed for sts.example.com"),
    "another request": ({"body": b"Action=AssumeRole"}, "is signed for something else"),
    "no signed environment": ({"headers": {"Content-Type": "x"}}, "x-slipway-environment"),
    "a further header": (
        {"headers": {**OTHER_ENVIRONMENT, "X-Slipway-Environment": "prod", "X-Other": "1"}},
        "other headers than a node's",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_everybody_else_is_refused_with_a_line_in_the_log(
    site: Site, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, said = REFUSED[case]
    claim = site.claim(**changes)
    enforce(site.aws)
    status, answer = site.send(claim)
    assert (status, site.asked) == (403, [])
    assert said in answer["error"]
    printed = capsys.readouterr().out
    assert f"refused 127.0.0.1: {answer['error']}" in printed
    for secret in (claim["headers"]["X-Amz-Security-Token"], "Signature="):
        assert secret not in printed


def with_request(request: str) -> dict[str, Any]:
    """What a node changes of its claim to have a request done."""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slipway-Environment": "prod",
        "X-Slipway-Request": request,
    }
    return {"headers": headers}


DIGEST = "d" * 64
VARIABLE = "/v1/var/slipway/nodes/l4-0123456789abcdef0"


def drain(deadline: int) -> dict[str, Any]:
    spec = {"DrainSpec": {"Deadline": deadline}, "MarkEligible": False}
    return {"path": "/v1/node/n1/drain", **spec}


DONE: dict[str, list[dict[str, Any]]] = {
    "vacate": [drain(0)],
    "evacuate": [drain(1), {"looked at": "/v1/node/n1"}, {"looked at": "/v1/node/n1"}],
    "forget": [{"path": "/v1/node/n1/purge"}, {"deleted": VARIABLE}],
    f"has {DIGEST}": [
        {
            "path": VARIABLE,
            "Path": "slipway/nodes/l4-0123456789abcdef0",
            "Items": {"artifacts": DIGEST},
        }
    ],
}


@pytest.mark.parametrize("request_", DONE)
def test_a_node_has_things_done_for_itself_alone(
    site: Site, request_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = site.claim(**with_request(request_))
    enforce(site.aws)
    status, answer = site.send(claim, path=REQUEST_PATH)
    assert (status, answer["host"]) == (200, "l4-0123456789abcdef0")
    assert site.asked == DONE[request_]
    assert "l4-0123456789abcdef0 (127.0.0.1)" in capsys.readouterr().out


def test_an_instance_that_nomad_does_not_list_has_nothing_done(site: Site) -> None:
    claim = site.claim(session="i-0123456789abcdef9", **with_request("evacuate"))
    assert site.send(claim, path=REQUEST_PATH)[0] == 200
    assert site.asked == []


@pytest.mark.parametrize("request_", ["", "purge", "forget l4-0123456789abcdef1", "has x"])
def test_another_request_is_refused(site: Site, request_: str) -> None:
    status, _ = site.send(site.claim(**with_request(request_)), path=REQUEST_PATH)
    assert (status, site.asked) == (403, [])


def test_a_request_that_is_not_signed_or_was_changed_is_refused(site: Site) -> None:
    unsigned, signed = site.claim(), site.claim(**with_request("forget"))
    enforce(site.aws)
    for claim in (
        unsigned,
        changed(unsigned, "X-Slipway-Request", "forget"),
        changed(signed, "X-Slipway-Request", "evacuate"),
    ):
        assert site.send(claim, path=REQUEST_PATH)[0] == 403
    assert site.send(signed)[0] == 403  # nor does it introduce anybody
    assert site.asked == []


def changed(claim: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    return {**claim, "headers": {**claim["headers"], name: value}}


def test_headers_that_were_changed_after_they_were_signed_are_refused_by_aws(site: Site) -> None:
    of_another = site.claim(headers=OTHER_ENVIRONMENT)
    later = site.claim()
    signature = later["headers"]["Authorization"]
    flipped = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=9)
    enforce(site.aws)
    for claim in (
        changed(of_another, "X-Slipway-Environment", "prod"),
        changed(later, "Authorization", flipped),
        changed(later, "X-Amz-Date", now.strftime("%Y%m%dT%H%M%SZ")),
    ):
        status, answer = site.send(claim)
        assert (status, "STS refuses the request" in answer["error"]) == (403, True), answer
    assert site.asked == []


def test_an_instance_of_another_account_is_refused(site: Site) -> None:
    site.introducer._account = "999999999999"
    claim = site.claim()
    status, answer = site.send(claim)
    assert (status, site.asked) == (403, [])
    assert "account 123456789012 is not that of this environment" in answer["error"]


@pytest.mark.parametrize(
    "claim", [b"", b"x", b"[]", b"{}", b'{"pool": "l4", "headers": {"a": 1}}', b'{"pool": "l4"}']
)
def test_what_is_not_a_claim_is_refused(site: Site, claim: bytes) -> None:
    status, _ = site.send(claim or b" ")
    assert (status, site.asked) == (403, [])


def test_who_shows_no_certificate_of_the_platform_is_not_heard(site: Site, tmp_path: Path) -> None:
    foreign = Authority().issue("pool-l4")
    foreign["ca.pem"] = site.authority.pem
    claim = site.claim()
    with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
        site.send(claim, written(tmp_path / "foreign", foreign))
    assert site.asked == []
    assert site.send(claim)[0] == 200  # others are still heard


def test_without_aws_nobody_is_introduced_and_nobody_is_refused(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = site.claim(url="http://127.0.0.1:9/")
    silent = dataclasses.replace(site.introducer._settings, sts="http://127.0.0.1:9/")
    site.introducer._settings = silent
    status, answer = site.send(claim)
    assert status == 503
    assert "STS cannot be reached" in answer["error"]
    assert "cannot serve 127.0.0.1 now" in capsys.readouterr().out


def test_a_silent_client_keeps_nobody_waiting(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.server.server_port), timeout=HANG_S):
        assert site.send(site.claim())[0] == 200


def test_the_check_of_health_needs_no_claim(site: Site) -> None:
    context = client_context(site.client, NAME)
    address = f"https://127.0.0.1:{site.server.server_port}/healthz"
    with urllib.request.urlopen(address, context=context, timeout=HANG_S) as answer:
        assert answer.status == 200


def test_the_account_is_that_of_the_instance(metadata: Metadata) -> None:
    metadata.texts["/latest/dynamic/instance-identity/document"] = json.dumps(
        {"accountId": ACCOUNT, "instanceId": INSTANCE}
    )
    assert own_account() == ACCOUNT
