"""A certificate for clients on every edge host, and another one in its place while they stream."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from cli.certificates import PublicTls
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import (
    NAME,
    Checkout,
    by_name,
    client_of,
    environment,
    listed,
    streams,
)
from tests.public_certificates import NAME as SERVER_NAME
from tests.public_certificates import Issued, PublicAuthority, put
from tests.waiting import HANG_S

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SERVER, WORKER, SHARED = f"{NETWORK}.11", f"{NETWORK}.21", f"{NETWORK}.30"
EDGES = {f"edge-{k}": f"{NETWORK}.3{1 + k}" for k in range(2)}
SETTINGS = {
    "pools": {
        "cpu": {
            "kind": "metal",
            "hosts": listed({"worker-0": WORKER}),
            "memory": "16GiB",
            "cpu": 8,
        },
        "edge": {"kind": "metal", "hosts": listed(EDGES), "memory": "4GiB", "cpu": 2},
    },
    "gateway": {
        "pool": "edge",
        "address": SHARED,
        "certificate": {"cert": "tls/cert.pem", "key": "tls/key.pem", "ca": "tls/ca.pem"},
    },
}
AUTHORITY = PublicAuthority()
FIRST, SECOND = AUTHORITY.issue(), AUTHORITY.issue()
VARIABLES = {f"envoy-{name}-public-certificate" for name in EDGES}
SEARCHED = "/etc /opt /root /run /tmp /usr/local /var"  # where a platform's files could be


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {"server-0": SERVER, "worker-0": WORKER, **EDGES}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 1, "max": 1}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        bring(made, FIRST)
        (made.folder / "tls/ca.pem").write_text(AUTHORITY.root.pem)
        yield made


def bring(checkout: Checkout, issued: Issued) -> None:
    put(checkout.folder / "tls", cert=AUTHORITY.chain(issued), key=issued.key_pem)


@pytest.fixture(scope="module")
def tls(checkout: Checkout) -> PublicTls:
    return PublicTls(name=SERVER_NAME, authorities=checkout.folder / "tls/ca.pem")


def shown(address: str, tls: PublicTls) -> str:
    """The fingerprint of what a client is shown, who verifies it."""
    with (
        socket.create_connection((address, 8080), timeout=HANG_S) as connection,
        tls.context().wrap_socket(connection, server_hostname=tls.name) as client,
    ):
        return hashlib.sha256(client.getpeercert(binary_form=True) or b"").hexdigest()


def test_a_preview_reads_the_files_and_needs_no_host(checkout: Checkout) -> None:
    shown = checkout.slipway("preview")
    assert "certificate-shown" in shown.stdout
    assert all(name in shown.stdout for name in VARIABLES)


def test_every_edge_host_shows_it_and_answers(checkout: Checkout, tls: PublicTls) -> None:
    done = checkout.slipway("up")
    assert f"certificate: 2 of 2 Envoys show {FIRST.fingerprint[:16]}" in done.stdout + done.stderr
    for address in (*EDGES.values(), SHARED):
        assert shown(address, tls) == FIRST.fingerprint
        with client_of(address, tls) as client:
            body = {"model": "sim-a", "prompt": "hi", "max_tokens": 4}
            answer = client.post("/v1/completions", json=body, extensions=by_name(tls))
        assert answer.raise_for_status().json()["choices"]
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"http://{address}:8080/healthz")


def test_consul_finds_every_envoy_well(checkout: Checkout) -> None:
    found = checkout.ask(f"https://{SERVER}:8501/v1/health/service/envoy?passing=1")
    assert {each["Service"]["Address"] for each in found} == {*EDGES.values()}


def test_a_second_up_changes_nothing(checkout: Checkout) -> None:
    checkout.slipway("up")
    assert checkout.changed() == set()


def test_another_certificate_is_shown_while_streams_go_on(
    checkout: Checkout, hosts: Bed, tls: PublicTls
) -> None:
    envoys = {name: processes(hosts, name) for name in EDGES}
    bring(checkout, SECOND)
    with client_of(SHARED, tls) as held, streams(SHARED, tls=tls) as streamed:
        assert certificate_of(held, tls) == FIRST.fingerprint
        done = checkout.slipway("up")
        # The connection from before is still open, with the certificate from before.
        assert certificate_of(held, tls) == FIRST.fingerprint
    assert f"certificate: 2 of 2 Envoys show {SECOND.fingerprint[:16]}" in done.stdout + done.stderr
    assert checkout.changed() == {*VARIABLES, "certificate-shown"}
    for address in (*EDGES.values(), SHARED):
        assert shown(address, tls) == SECOND.fingerprint
    assert len(streamed.answers) > 20
    assert not streamed.failed
    assert {name: processes(hosts, name) for name in EDGES} == envoys


def processes(hosts: Bed, name: str) -> str:
    """The process ids of Envoy on a host."""
    found = hosts.hosts[name].ssh("pgrep --full '[/]envoy --config-path'")
    assert found.strip()
    return found


def certificate_of(client: httpx.Client, tls: PublicTls) -> str:
    """What the client's connection was shown when it was opened."""
    with client.stream("GET", "/healthz", extensions=by_name(tls)) as answer:
        assert answer.status_code == 200
        answer.read()
        connection = answer.extensions["network_stream"].get_extra_info("ssl_object")
        return hashlib.sha256(connection.getpeercert(True)).hexdigest()


@pytest.mark.parametrize("issued", [FIRST, SECOND], ids=["first", "second"])
def test_the_key_is_only_where_envoy_reads_it(
    checkout: Checkout, hosts: Bed, issued: Issued
) -> None:
    canary = issued.key_pem.splitlines()[1]
    for name, host in hosts.hosts.items():
        files = host.ssh(f"grep -rlsF -- '{canary}' {SEARCHED} || true").split()
        for file in files:
            assert file.endswith("/envoy/secrets/public.json"), (name, file)
            assert host.ssh(f"stat -c '%a %U' {file}") == "600 root\n", (name, file)
        assert len(files) == (1 if name in EDGES and issued is SECOND else 0), (name, files)
        told = host.ssh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'")
        assert canary not in told, name
        assert canary not in host.ssh("journalctl --no-pager"), name
    state = Path(checkout.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
    places = (state, Path(checkout.environ["PULUMI_HOME"]), checkout.folder)
    written = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert any(set_of_names(path) >= VARIABLES for path in written if path.is_relative_to(state))
    holding = [path for path in written if canary.encode() in path.read_bytes()]
    own = checkout.folder / "tls/key.pem"
    assert holding == ([own] if issued is SECOND else [])


def set_of_names(path: Path) -> set[str]:
    """The resources of this test in a file of the state."""
    text = path.read_text(errors="replace")
    return {name for name in VARIABLES if name in text}


def test_a_key_of_another_certificate_is_refused_before_anything_is_touched(
    checkout: Checkout, tls: PublicTls
) -> None:
    put(checkout.folder / "tls", cert=AUTHORITY.chain(SECOND), key=FIRST.key_pem)
    refused = checkout.slipway("up", check=False)
    assert refused.returncode == 2
    assert f"Pulumi.{NAME}.yaml:" in refused.stderr
    assert "slipway:gateway.certificate.key: does not belong to the certificate" in refused.stderr
    assert shown(SHARED, tls) == SECOND.fingerprint


def test_who_does_not_have_the_key_can_still_look_at_the_hosts(checkout: Checkout) -> None:
    (checkout.folder / "tls/key.pem").unlink()
    assert "edge-1" in checkout.slipway("hosts").stdout
