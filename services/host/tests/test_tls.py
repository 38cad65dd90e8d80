"""Who may talk to the agents, and how they take up a renewed certificate."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import NODE, SERVER, Authority, own_der
from cluster import FILE_SERVER, Cluster, running_cluster, wait_until_passing, web_job
from hangs import HANG_S
from host.processes import running
from program.certificate import FILES, client_context
from program.http_json import Api, ApiError
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

KEYS = "/.well-known/jwks.json"
JOB = "prometheus"  # whose tasks may log in to Consul


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster("127.89.0.") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def addresses(cluster: Cluster) -> dict[str, str]:
    return addresses_of(cluster)


def addresses_of(cluster: Cluster) -> dict[str, str]:
    """Every API of an agent, and a path that needs no token."""
    return {
        "Consul's server": f"{cluster.consul_address()}/v1/status/leader",
        "Consul's client": f"{cluster.consul_address(16)}/v1/status/leader",
        "Nomad's server": f"{cluster.address(1, 4646)}/v1/status/leader",
        "Nomad's client": f"{cluster.address(16, 4646)}/v1/agent/health",
    }


AGENTS = ["Consul's server", "Consul's client", "Nomad's server", "Nomad's client"]


def get(url: str, context: ssl.SSLContext | None = None) -> bytes:
    with urllib.request.urlopen(url, timeout=HANG_S, context=context) as response:
        content: bytes = response.read()
    return content


def anonymous(cluster: Cluster) -> ssl.SSLContext:
    """Of a client that shows no certificate."""
    context = ssl.create_default_context(cafile=cluster.operators_certificate / "ca.pem")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def written(files: dict[str, str], folder: Path) -> Path:
    for name in FILES:
        (folder / name).write_text(files[name])
    return folder


@pytest.mark.parametrize("agent", AGENTS)
def test_the_operators_certificate_is_accepted(
    cluster: Cluster, addresses: dict[str, str], agent: str
) -> None:
    assert get(addresses[agent], client_context(cluster.operators_certificate))


@pytest.mark.parametrize("agent", AGENTS)
def test_plain_http_is_refused(addresses: dict[str, str], agent: str) -> None:
    with pytest.raises((urllib.error.HTTPError, http.client.HTTPException, OSError)) as refused:
        get(addresses[agent].replace("https:", "http:"))
    if isinstance(refused.value, urllib.error.HTTPError):
        assert refused.value.code == 400
        assert b"HTTPS" in refused.value.read()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_client_without_a_certificate_is_refused(
    cluster: Cluster, addresses: dict[str, str], agent: str
) -> None:
    context = anonymous(cluster)
    with pytest.raises(OSError, match="certificate required"):
        get(addresses[agent], context)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("other", ["a stranger", "another one below its root"])
def test_a_certificate_of_another_authority_is_refused(
    cluster: Cluster, addresses: dict[str, str], agent: str, other: str, tmp_path: Path
) -> None:
    authority = Authority() if other == "a stranger" else cluster.authority.sibling()
    known = {**authority.issue("operator"), "ca.pem": cluster.authority.pem}
    with pytest.raises(OSError, match=r"alert|reset"):
        get(addresses[agent], client_context(written(known, tmp_path)))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_expired_certificate_is_refused(
    cluster: Cluster, addresses: dict[str, str], agent: str, tmp_path: Path
) -> None:
    expired = cluster.authority.issue("operator", days=-1)
    with pytest.raises(OSError, match=r"alert|reset"):
        get(addresses[agent], client_context(written(expired, tmp_path)))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_shows_nobody_a_certificate_of_another_authority(
    addresses: dict[str, str], agent: str, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        get(addresses[agent], client_context(written(Authority().issue("operator"), tmp_path)))


def test_consul_reads_the_keys_of_workload_identities_without_a_certificate(
    cluster: Cluster,
) -> None:
    context = anonymous(cluster)
    assert b'"keys"' in get(cluster.address(1, 4645) + KEYS, context)


@pytest.mark.parametrize("path", ["/", "/v1/jobs", f"{KEYS}/", f"/v1/jobs/..{KEYS}", "//x" + KEYS])
def test_the_publisher_of_keys_answers_no_other_path(cluster: Cluster, path: str) -> None:
    context = anonymous(cluster)
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(cluster.address(1, 4645) + path, context)
    assert refused.value.code == 404


def test_a_client_that_stays_silent_does_not_keep_consul_from_the_keys(cluster: Cluster) -> None:
    address = urlsplit(cluster.address(1, 4645))
    context = anonymous(cluster)
    with socket.create_connection((address.hostname, address.port)):
        assert get(address.geturl() + KEYS, context)


def test_a_renewed_certificate_reaches_both_agents_and_the_task_goes_on(cluster: Cluster) -> None:
    """Consul's agent reads it while it runs; Nomad's restarts, because it shows it to Consul."""
    nomad = cluster.nomad(cluster.management["nomad"])
    nomad.put("/v1/jobs", web_job(JOB))
    consul = cluster.consul(cluster.management["consul"])
    wait_until_passing(consul, JOB)
    before, tasks = cluster.pids(), tasks_of(cluster)
    renewed = cluster.authority.issue("cpu-0", NODE, (f"{cluster.prefix}16", "127.0.0.1"))
    secrets = {**cluster.agent_secrets("cpu-0"), "certificate": renewed}
    said = cluster.apply("agents.py", cluster.golden("cpu-0"), secrets)
    after = cluster.pids()
    assert {name for name in after if after[name] != before[name]} == {"cpu-0-nomad"}
    assert "nomad on cpu-0: answers" in said
    for address in (cluster.consul_address(16), cluster.address(16, 4646)):
        assert shown(address) == fingerprint(renewed["cert.pem"])
    assert tasks_of(cluster) == tasks
    wait_until_passing(consul, JOB)


def test_a_renewed_certificate_of_a_server_is_shown_by_all_its_agents(cluster: Cluster) -> None:
    before = cluster.pids()
    renewed = cluster.authority.issue("server-0", SERVER, (f"{cluster.prefix}1", "127.0.0.1"))
    secrets = {**cluster.agent_secrets("server-0"), "certificate": renewed}
    for document in ("server-0-consul", "server-0-nomad"):
        cluster.apply("agents.py", cluster.golden(document), secrets)
    assert cluster.pids()["server-0-consul"] == before["server-0-consul"]
    for address in (cluster.consul_address(), cluster.address(1, 4646), cluster.address(1, 4645)):
        assert shown(address) == fingerprint(renewed["cert.pem"])


def test_agents_follow_no_server_with_the_certificate_of_a_node(cluster: Cluster) -> None:
    """Its authority is the right one, and its address too: only the role is another."""
    token = {"X-Consul-Token": cluster.management["consul"]}
    consul = Api(cluster.consul_address(16), token, certificate=cluster.operators_certificate)
    assert consul.get("/v1/catalog/nodes")
    addresses = (f"{cluster.prefix}1", "127.0.0.1")
    node = cluster.authority.issue("server-0", NODE, addresses)
    document, known = cluster.golden("server-0-consul"), cluster.agent_secrets("server-0")
    try:
        cluster.apply("agents.py", document, {**known, "certificate": node})
        os.kill(cluster.pids()["cpu-0-consul"], signal.SIGKILL)  # it keeps connections otherwise
        log = cluster.run_folder / "logs/cpu-0-consul.log"
        began = log.stat().st_size
        refusal = "certificate is valid for client.dev.consul"

        def missing() -> str | None:
            return None if refusal in log.read_text()[began:] else "no refusal in its log"

        wait_until("the refusal of the server", missing, HANG_S)
        with pytest.raises(ApiError):
            consul.get("/v1/catalog/nodes")
    finally:
        cluster.apply("agents.py", document, known)

    def refused() -> str | None:
        try:
            return None if consul.get("/v1/catalog/nodes") else "no nodes"
        except ApiError as error:
            return str(error)

    wait_until("Consul's client follows the server again", refused, HANG_S)


def test_another_authority_takes_over_in_three_steps_and_the_task_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It has the same name. The last test here: the cluster belongs to the other one then."""
    old, new, tasks = cluster.authority, Authority(), tasks_of(cluster)
    of_old = {**old.issue("operator"), "ca.pem": new.pem}
    for signs, trusted in ((old, old.pem + new.pem), (new, new.pem + old.pem), (new, new.pem)):
        server, node = take_over(cluster, signs, trusted)
        for last, certificate in ((1, server), (16, node)):
            for address in (cluster.consul_address(last), cluster.address(last, 4646)):
                assert shown(address) == fingerprint(certificate["cert.pem"])
        wait_until_passing(cluster.consul(cluster.management["consul"]), JOB)
        assert tasks_of(cluster) == tasks
    for url in addresses_of(cluster).values():
        with pytest.raises(OSError, match=r"alert|reset"):
            get(url, client_context(written(of_old, tmp_path)))


def take_over(cluster: Cluster, signs: Authority, trusted: str) -> list[dict[str, str]]:
    """Everybody gets a certificate that `signs` has signed, and trusts these. Returns the
    certificates of the server and of the node."""
    operator = {**signs.issue("operator"), "ca.pem": trusted}
    secrets = {"schema_version": 1, "certificate": operator}
    cluster.apply("operator_access.py", {"schema_version": 1}, secrets)
    issued = []
    for host, names, last, documents in (
        ("server-0", SERVER, 1, ("server-0-consul", "server-0-nomad")),
        ("cpu-0", NODE, 16, ("cpu-0",)),
    ):
        files = signs.issue(host, names, (f"{cluster.prefix}{last}", "127.0.0.1"))
        issued.append({**files, "ca.pem": trusted})
        for document in documents:
            agents = {**cluster.agent_secrets(host), "certificate": issued[-1]}
            cluster.apply("agents.py", cluster.golden(document), agents)
    workloads = {**cluster.operator("consul"), "authority": trusted}
    cluster.apply("consul_acl.py", cluster.golden("consul-workloads"), workloads)
    return issued


def tasks_of(cluster: Cluster) -> list[int]:
    folder = cluster.run_folder / "nodes"
    return sorted(
        process.pid
        for process in running()
        if process.has_variable("NOMAD_ALLOC_DIR", below=folder) and FILE_SERVER in process.argv
    )


def shown(address: str) -> str:
    """The fingerprint of the certificate that a server shows."""
    parts = urlsplit(address)
    assert parts.hostname
    assert parts.port
    pem = ssl.get_server_certificate((parts.hostname, parts.port), timeout=HANG_S)
    return fingerprint(pem)


def fingerprint(pem: str) -> str:
    return hashlib.sha256(own_der(pem)).hexdigest()
