"""Introduces new nodes of elastic pools, and serves those that leave; a platform job on the
gateway's hosts.

    introduce.py FILE

FILE is JSON (schemas/introducer.schema.json). A node sends a claim: its pool, and the headers of a
request for AWS's sts:GetCallerIdentity that it has signed for this environment. AWS says which role
and which instance has signed. Nomad then signs the same introduction that an operator brings to
hosts over SSH, for a node that is named after the instance. A node that has joined signs a request
in the same way, and gets it done for itself alone (requests.py). Clients must show a certificate of
the platform's authority; that alone lets nobody in. Every refusal is a line in the log.

Environment: NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate is in the folder of the last.
The token may write nodes.
"""

from __future__ import annotations

import datetime
import http.server
import json
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from instance import metadata
from program.document import parsing
from program.errors import HostError, exit_code
from program.http_json import Api
from program.waiting import say

from introducer.claims import (
    REQUEST,
    SIGNED,
    SIGNED_WITH_REQUEST,
    RefusedError,
    must_be_for_us,
    read_claim,
)
from introducer.identity import UnavailableError, ask, instance_of, node_name, pool_of
from introducer.requests import do

SCHEMA = "introducer.schema.json"
INTRODUCTION_PATH, REQUEST_PATH, HEALTH = "/v1/introduction", "/v1/request", "/healthz"
LARGEST_CLAIM = 1 << 16
REQUEST_S = 30
INTRODUCTION = "/v1/acl/identity/client-introduction-token"


@dataclass(frozen=True)
class Settings:
    address: str
    port: int
    environment: str
    region: str
    sts: str
    pools: Mapping[str, str]  # the pool of each role
    ttl_s: int  # of an introduction


def read_settings(document: Mapping[str, Any]) -> Settings:
    with parsing(SCHEMA):
        listen = document["listen"]
        return Settings(
            address=listen["address"],
            port=listen["port"],
            environment=document["environment"],
            region=document["region"],
            sts=os.environ.get("AWS_ENDPOINT_URL", document["sts"]),
            pools=dict(document["pools"]),
            ttl_s=document["ttl_s"],
        )


class Introducer:
    """`account` is AWS's number of the account in which this runs."""

    def __init__(
        self,
        settings: Settings,
        nomad: Api,
        account: str,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
    ) -> None:
        self._settings, self._nomad, self._account, self._now = settings, nomad, account, now

    def introduce(self, body: bytes) -> dict[str, str]:
        """The node's name, and its introduction. Raises RefusedError, UnavailableError and
        ApiError."""
        pool, host, _ = self._who(body, SIGNED)
        wanted = {"NodeName": host, "NodePool": pool, "TTL": f"{self._settings.ttl_s}s"}
        answer = self._nomad.post(INTRODUCTION, wanted)
        return {"host": host, "done": "introduced", "introduction": str(answer["JWT"])}

    def request(self, body: bytes) -> dict[str, str]:
        """The node's name, and what was done for it. Raises as `introduce`."""
        _, host, headers = self._who(body, SIGNED_WITH_REQUEST)
        return {"host": host, "done": do(self._nomad, host, headers[REQUEST])}

    def _who(self, body: bytes, signed: tuple[str, ...]) -> tuple[str, str, Mapping[str, str]]:
        """Pool and name of the node that has signed, and what it has signed."""
        settings = self._settings
        try:
            claim = read_claim(json.loads(body))
        except ValueError:
            raise RefusedError("the claim is not JSON") from None
        must_be_for_us(
            claim,
            signed=signed,
            environment=settings.environment,
            region=settings.region,
            host=urlsplit(settings.sts).netloc,
            now=self._now(),
        )
        instance = instance_of(ask(settings.sts, claim))
        pool = pool_of(instance, claim, account=self._account, pools=settings.pools)
        return pool, node_name(pool, instance), claim.headers


def handler_of(introducer: Introducer) -> type[http.server.BaseHTTPRequestHandler]:
    served = {INTRODUCTION_PATH: introducer.introduce, REQUEST_PATH: introducer.request}

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = REQUEST_S

        def do_GET(self) -> None:
            self._answer(HTTPStatus.OK if self.path == HEALTH else HTTPStatus.NOT_FOUND, {})

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            serve = served.get(self.path)
            if serve is None or not 0 < size <= LARGEST_CLAIM:
                self._answer(HTTPStatus.NOT_FOUND, {"error": "there is nothing here"})
                return
            peer = self.client_address[0]
            try:
                answer = serve(self.rfile.read(size))
            except RefusedError as error:
                say(f"refused {peer}: {error}")
                self._answer(HTTPStatus.FORBIDDEN, {"error": str(error)})
            except (UnavailableError, HostError) as error:
                say(f"cannot serve {peer} now: {error}")
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
            else:
                say(f"{answer['done']} {answer['host']} ({peer})")
                self._answer(HTTPStatus.OK, answer)

        def _answer(self, status: HTTPStatus, content: Mapping[str, str]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Every introduction and refusal has a line of its own."""

    return Handler


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a group may start many nodes at once

    def __init__(self, settings: Settings, introducer: Introducer, certificate: Path) -> None:
        super().__init__((settings.address, settings.port), handler_of(introducer))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate / "ca.pem")
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it may be an intermediate
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        # The handshake is the thread's, or one silent client would keep all others waiting.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(REQUEST_S)
        try:
            request.do_handshake()
        except OSError:  # no certificate, or none of the platform's authority
            return
        super().finish_request(request, client_address)


def run(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise HostError("usage: introduce.py FILE")
    settings = read_settings(json.loads(Path(arguments[0]).read_text()))
    certificate = Path(os.environ["NOMAD_CACERT"]).parent
    token = {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]}
    nomad = Api(os.environ["NOMAD_ADDR"], token, certificate=certificate)
    server = Server(settings, Introducer(settings, nomad, metadata.account()), certificate)
    say(f"introduces nodes of {', '.join(sorted(settings.pools.values()))}")
    server.serve_forever()


def main(arguments: list[str]) -> int:
    return exit_code(lambda: run(arguments))
