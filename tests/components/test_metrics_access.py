"""Real Prometheus, and a real Autoscaler behind its proxy: whom they answer."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import httpx
import pytest

from components.autoscaling.nomad import JOB_ID as AUTOSCALER
from components.autoscaling.nomad import autoscaler_job
from components.certificates import identities
from components.certificates.identities import Identity
from components.metrics.prometheus import JOB_ID as PROMETHEUS
from components.metrics.prometheus import prometheus_job
from components.nomad.jobspec import Task
from services.program.tests.certificates import Authority, own_der
from tests.binaries import find
from tests.components.nomad_agent import running, wait_for
from tests.components.platform_jobs import CERTIFICATE
from tests.components.platform_plan import platform_plan
from tests.waiting import HANG_S, until

pytestmark = [pytest.mark.binaries]

PLAN = platform_plan(network={"cidr": "127.86.0.0/24"})
PORTS = {"autoscaler": 20081, "prometheus": 20090}  # those that Nomad would choose
(OTHER, *_), (OWN,) = (pool.hosts for pool in PLAN.pools)  # cpu, edge


def elsewhere(name: str) -> Identity:
    """A job of this name that runs on another host."""
    return Identity(name=name, common_name=name, dns_names=(name,), addresses=(OTHER.address,))


ROLES: dict[str, Identity] = {
    "Prometheus": identities.prometheus(PLAN, PROMETHEUS),
    "the autoscaler": identities.autoscaler(PLAN, AUTOSCALER),
    "the operator": identities.operator(PLAN),
    "its own node": identities.node(PLAN, OWN),
    "another node": identities.node(PLAN, OTHER),
    "a server": identities.server(PLAN, PLAN.servers[0]),
    "the autoscaler of another host": elsewhere(PLAN.peers.autoscaler),
    "the gateway of another host": elsewhere(PLAN.peers.gateway),
}


class Issued:
    """Certificates of one authority, by role."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()

    def files(self, role: str, *, days: int = 1) -> dict[str, str]:
        identity = ROLES[role]
        return self.authority.issue(
            identity.common_name, identity.dns_names, identity.addresses, days=days
        )

    def client(self, role: str = "", *, days: int = 1) -> ssl.SSLContext:
        """Shows a certificate of the role, or none."""
        return self.showing(self.files(role, days=days) if role else {})

    def showing(self, files: Mapping[str, str]) -> ssl.SSLContext:
        """A client that trusts this authority and shows this certificate, whoever signed it."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if files:
            write(self.folder, files)
            context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        return context


@dataclass(frozen=True)
class Served:
    """A program that serves, and the folder of its task's certificate."""

    url: str
    certificate: Path


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return Issued(tmp_path_factory.mktemp("issued"))


@pytest.fixture(scope="module")
def prometheus(issued: Issued, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    (task,) = prometheus_job(PLAN).group.tasks
    folder = task_folder(tmp_path_factory.mktemp("prometheus"), task, issued.files("Prometheus"))
    arguments = [each.replace("${NOMAD_ALLOC_DIR}", str(folder)) for each in task.args]
    command = [str(find("prometheus")), *arguments]
    url = PLAN.monitoring.prometheus.url
    with serving(command, folder, f"{url}/-/ready", issued.client("the operator")):
        yield Served(url, folder / "secrets")


@pytest.fixture(scope="module")
def autoscaler(
    issued: Issued, prometheus: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Behind its proxy. No Nomad is there, so it has nothing to scale."""
    proxy, agent = autoscaler_job(PLAN).group.tasks
    certificate = issued.files("the autoscaler")
    behind = task_folder(tmp_path_factory.mktemp("autoscaler"), agent, certificate)
    before = task_folder(tmp_path_factory.mktemp("proxy"), proxy, certificate)
    url = PLAN.autoscaling.autoscaler.url
    loopback = f"http://{PLAN.autoscaling.autoscaler.host}:{PORTS['autoscaler']}"
    programs = [str(find(name)) for name in ("nomad-autoscaler", "envoy")]
    alone, proxied = (
        [name, *task.args] for name, task in zip(programs, (agent, proxy), strict=True)
    )
    asking = issued.client("Prometheus")
    with (
        serving(alone, behind, f"{loopback}/v1/health", None, agent.env),
        serving(proxied, before, f"{url}/v1/health", asking),
    ):
        yield Served(url, before / "secrets")


def task_folder(folder: Path, task: Task, certificate: Mapping[str, str]) -> Path:
    """What the task finds in its folder, filled in as Nomad does."""
    for name in ("local", "secrets"):
        (folder / name).mkdir()
    write(folder / "secrets", {**certificate, "consul_token": "a token"})
    for file in task.files:
        if file.path not in CERTIFICATE:
            write(folder, {file.path: filled_in(file.content, certificate["key.pem"])})
    return folder


def filled_in(text: str, key: str) -> str:
    text = re.sub(
        r"<% with nomadVar [^%]* %><% \.key\.Value \| sha256Hex %><% end %>", password(key), text
    )
    return re.sub(r"<% env `NOMAD_PORT_(\w+)` %>", lambda found: str(PORTS[found[1]]), text)


def password(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """As Nomad replaces files."""
    for name, content in files.items():
        (folder / f"{name}.partial").write_text(content, encoding="utf-8")
        (folder / f"{name}.partial").replace(folder / name)


@contextlib.contextmanager
def serving(
    command: list[str],
    folder: Path,
    page: str,
    client: ssl.SSLContext | None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[None]:
    """A program that runs in this folder; its page has answered the client."""
    log = folder / "log"
    with (
        running(command, log, folder=folder, **environment) as process,
        httpx.Client(verify=client or False, trust_env=False, timeout=HANG_S) as asking,
    ):
        wait_for(asking, page, process, log)
        yield


def status(url: str, context: ssl.SSLContext | None = None) -> int | None:
    """Of the answer; None if the connection is refused."""
    try:
        return httpx.get(url, verify=context or False, trust_env=False, timeout=HANG_S).status_code
    except httpx.TransportError:
        return None


@pytest.fixture(scope="module", params=["prometheus", "autoscaler"])
def page(request: pytest.FixtureRequest, prometheus: Served, autoscaler: Served) -> str:
    paths = {
        "prometheus": f"{prometheus.url}/api/v1/status/runtimeinfo",
        "autoscaler": f"{autoscaler.url}/v1/metrics?format=prometheus",
    }
    return paths[request.param]


@pytest.mark.parametrize(
    ("role", "asked"),
    [
        ("Prometheus", {"prometheus", "autoscaler"}),
        ("its own node", {"prometheus", "autoscaler"}),
        # Its certificate has the node's address, so here it is taken for the node.
        ("the autoscaler", {"prometheus", "autoscaler"}),
        ("the autoscaler of another host", {"prometheus"}),
        ("the operator", {"prometheus"}),
        ("another node", set()),
        ("a server", set()),
        ("the gateway of another host", set()),
    ],
)
def test_each_answers_only_those_who_have_to_ask_it(
    issued: Issued, prometheus: Served, autoscaler: Served, role: str, asked: set[str]
) -> None:
    client = issued.client(role)
    answers = {
        "prometheus": status(f"{prometheus.url}/metrics", client),
        "autoscaler": status(f"{autoscaler.url}/v1/metrics", client),
    }
    assert answers == {name: 200 if name in asked else None for name in answers}


def test_strangers_are_refused(issued: Issued, tmp_path: Path, page: str) -> None:
    assert status(page, issued.client("Prometheus")) == 200
    assert status(page, issued.client()) is None
    assert status(page, issued.client("Prometheus", days=-1)) is None
    assert status(page, issued.showing(Issued(tmp_path).files("Prometheus"))) is None
    sibling = issued.authority.sibling().issue("prometheus", [PLAN.peers.prometheus])
    assert status(page, issued.showing(sibling)) is None


def test_plain_text_is_refused(page: str) -> None:
    # Go's server says so in plain text, Envoy closes the connection.
    assert status(page.replace("https://", "http://")) in {400, None}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/health", 200),
        ("PUT", "/v1/health", 405),
        ("PUT", "/v1/agent/reload", 404),
        ("GET", "/v1/metrics/../agent/reload", 404),
    ],
)
def test_the_autoscaler_can_only_be_read(
    issued: Issued, autoscaler: Served, method: str, path: str, code: int
) -> None:
    with httpx.Client(
        verify=issued.client("Prometheus"), trust_env=False, timeout=HANG_S
    ) as client:
        request = client.build_request(method, autoscaler.url)
        request.url = httpx.URL(autoscaler.url).copy_with(raw_path=path.encode())
        assert client.send(request).status_code == code


def test_the_autoscaler_asks_prometheus_through_its_proxy(autoscaler: Served) -> None:
    key = (autoscaler.certificate / "key.pem").read_text()
    known, wrong = ({"Authorization": each} for each in (password(key), password("a guess")))

    def asked(path: str, headers: Mapping[str, str]) -> httpx.Response:
        url = f"http://{PLAN.autoscaling.autoscaler.host}:{PORTS['prometheus']}{path}"
        return httpx.post(
            url, data={"query": "vector(3)"}, headers=headers, trust_env=False, timeout=HANG_S
        )

    answer = asked("/api/v1/query", known)
    assert answer.json()["data"]["result"][0]["value"][1] == "3"
    assert [asked("/api/v1/query", headers).status_code for headers in ({}, wrong)] == [403, 403]
    assert asked("/api/v1/series", known).status_code == 403


def test_a_renewed_certificate_is_shown_to_the_next_client(
    issued: Issued, prometheus: Served, autoscaler: Served
) -> None:
    for served, role in ((prometheus, "Prometheus"), (autoscaler, "the autoscaler")):
        client = issued.client("Prometheus")
        renewed = issued.files(role, days=2)
        before = shown(served.url, client)
        write(served.certificate, {name: renewed[name] for name in ("key.pem", "cert.pem")})
        expected = own_der(renewed["cert.pem"])
        seen = set[bytes]()
        until(partial(shows, served.url, client, expected, seen), role)  # the kernel tells Envoy
        assert seen <= {before, b"", expected}


def shows(url: str, client: ssl.SSLContext, expected: bytes, seen: set[bytes]) -> bool:
    seen.add(now := shown(url, client))
    return now == expected


def shown(url: str, client: ssl.SSLContext) -> bytes:
    """The certificate that a server shows, or nothing while its files do not belong together."""
    parts = urlsplit(url)
    try:
        with (
            socket.create_connection((parts.hostname, parts.port), timeout=HANG_S) as connection,
            client.wrap_socket(connection, server_hostname=parts.hostname) as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""
    except ssl.SSLError:
        return b""
