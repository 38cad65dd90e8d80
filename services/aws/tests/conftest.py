"""AWS as moto plays it, with signatures checked, and the metadata service of an instance."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
HANG_S = 60


class Metadata:
    """An instance's metadata service: IMDSv2, which answers only those that asked for a session."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.refused = 0
        handler = type("Handler", (_Handler,), {"metadata": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    metadata: Metadata

    def do_PUT(self) -> None:
        asked = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        known = self.path == "/latest/api/token" and asked is not None
        self._answer(200 if known else 400, "a session" if known else "")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "a session":
            self.metadata.refused += 1
            self._answer(401, "")
            return
        text = self.metadata.texts.get(self.path.removeprefix("/latest/meta-data/"))
        self._answer(404 if text is None else 200, text or "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    service = Metadata()
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.endpoint)
    yield service
    service.close()


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """The address of an AWS that checks signatures and permissions."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def account(aws: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes clients of a fresh account: `account("iam")`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)

    def client(service: str, **credentials: str) -> Any:
        given = credentials or {"aws_access_key_id": "root", "aws_secret_access_key": "root"}
        return boto3.client(service, region_name=REGION, endpoint_url=aws, **given)

    _post(f"{aws}/moto-api/reset")
    _post(f"{aws}/moto-api/reset-auth", "1000000")
    yield client
    _post(f"{aws}/moto-api/reset-auth", "1000000")


def enforce(aws: str) -> None:
    """From now on moto checks every signature, and what its sender may do."""
    _post(f"{aws}/moto-api/reset-auth", "0")


def role_credentials(account: Any, policy: dict[str, Any]) -> dict[str, str]:
    """Those of a new role with this policy, as an instance's metadata has them."""
    iam, sts = account("iam"), account("sts")
    trust = {"Version": "2012-10-17", "Statement": []}
    role = iam.create_role(RoleName="host", AssumeRolePolicyDocument=json.dumps(trust))["Role"]
    iam.put_role_policy(RoleName="host", PolicyName="own", PolicyDocument=json.dumps(policy))
    found = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="i-0123456789abcdef0")
    return {key: found["Credentials"][key] for key in KEYS}


KEYS = ("AccessKeyId", "SecretAccessKey", "SessionToken")


def _post(address: str, text: str = "") -> None:
    request = urllib.request.Request(
        address, data=text.encode(), headers={"Content-Type": "text/plain"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=HANG_S):
        pass
