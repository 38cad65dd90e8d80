"""A certificate for clients on this machine, and another one in its place while they stream."""

from __future__ import annotations

import hashlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cli.certificates import PublicTls
from tests.hosts.environment import streams
from tests.live.environments import Platform, copy_tree, deployment, write_environment
from tests.public_certificates import NAME, Issued, PublicAuthority, put
from tests.waiting import HANG_S

pytestmark = [pytest.mark.live, pytest.mark.beside]

NETWORK = "127.83.0"
EDGE = f"{NETWORK}.32"
MODEL = "sim-tls"
AUTHORITY = PublicAuthority()
FIRST, SECOND = AUTHORITY.issue(), AUTHORITY.issue()
FILES = {"cert": "tls/cert.pem", "key": "tls/key.pem", "ca": "tls/ca.pem"}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """In a checkout of its own, not yet up; taken down at the end."""
    copy_tree(tmp_path)
    made = Platform(checkout=tmp_path, name="tls", network=NETWORK)
    models = {MODEL: deployment(1, 1)}
    write_environment(tmp_path, made.name, network=NETWORK, models=models, nodes=1)
    stack = tmp_path / f"Pulumi.{made.name}.yaml"
    document = yaml.safe_load(stack.read_text())
    document["config"]["slipway:gateway"] = {"pool": "edge", "certificate": FILES}
    stack.write_text(yaml.safe_dump(document))
    bring(made, FIRST)
    (tmp_path / FILES["ca"]).write_text(AUTHORITY.root.pem)
    try:
        yield made
    finally:
        made.down()
        shutil.rmtree(tmp_path)


def bring(platform: Platform, issued: Issued) -> None:
    put(platform.checkout / "tls", cert=AUTHORITY.chain(issued), key=issued.key_pem)


def shown(tls: PublicTls) -> str:
    """The fingerprint of what a client is shown, who verifies it."""
    with (
        socket.create_connection((EDGE, 8080), timeout=HANG_S) as connection,
        tls.context().wrap_socket(connection, server_hostname=tls.name) as client,
    ):
        return hashlib.sha256(client.getpeercert(binary_form=True) or b"").hexdigest()


def test_up_replaces_the_certificate_while_streams_go_on(platform: Platform) -> None:
    tls = PublicTls(name=NAME, authorities=platform.checkout / FILES["ca"])
    report = platform.up()  # has asked the model over both protocols, by the name
    assert report["models"] == {MODEL: {"ready": True}}
    assert report["gateway"] == {
        "http": f"https://{EDGE}:8080",
        "grpc": f"{EDGE}:8080",
        "server_name": NAME,
    }
    assert shown(tls) == FIRST.fingerprint
    assert platform.slipway("chat", MODEL, "hi", "--grpc").stdout.startswith("simulated")

    bring(platform, SECOND)
    with streams(EDGE, model=MODEL, tls=tls) as streamed:
        platform.up()
    assert shown(tls) == SECOND.fingerprint
    assert len(streamed.answers) > 20
    assert not streamed.failed
    platform.slipway("preview", "--expect-no-changes")
