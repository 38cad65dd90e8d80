"""The whole platform on hosts: from machines with nothing on them to an answer, and back."""

from __future__ import annotations

import json
import re
import ssl
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from tenacity import Retrying, stop_after_delay, wait_fixed

from cli import certificates
from tests.hosts.bed import Bed
from tests.hosts.canaries import (
    PLANTED,
    command_lines,
    planted,
    secrets_of,
    seen_by_the_operator,
    seen_on,
    shown,
)
from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import NAME, Checkout, environment, streams
from tests.waiting import HANG_S

pytestmark = pytest.mark.hosts

REPLICAS = {"min": 2, "max": 2}
EDGE, SERVER, WORKER = (ADDRESSES[name] for name in ("edge-0", "server-0", "worker-0"))
CONSUL, NOMAD = f"https://{SERVER}:8501", f"https://{SERVER}:4646"
SECOND_WORKER = WORKER.rpartition(".")[0] + ".22"
INTRODUCTION = re.compile("eyJ[A-Za-z0-9_-]{20,}[.]")  # a token that Nomad has signed
# What a host has more of after a removal is seen here; what agents write elsewhere would be too.
LISTED = (
    "find /etc /opt /usr/local /var/lib /root -xdev -not -path '/var/lib/postgresql/*' | sort;"
    " getent passwd; getent group"
)


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    """Those of the file, and a host that joins later."""
    return {**ADDRESSES, "worker-1": SECOND_WORKER}


@pytest.fixture(scope="module")
def before(hosts: Bed) -> dict[str, str]:
    return {name: host.ssh(LISTED) for name, host in hosts.hosts.items()}


@pytest.fixture(scope="module")
def checkout(
    hosts: Bed, before: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checkout]:
    with environment(hosts, tmp_path_factory, models={"sim-a": REPLICAS}) as made:
        yield made


def test_a_preview_needs_no_host_and_no_policy_blocks_it(checkout: Checkout) -> None:
    checkout.slipway("plan")
    shown = checkout.slipway("preview")
    assert "node-worker-0" in shown.stdout
    assert "mandatory" not in shown.stdout


@pytest.fixture(scope="module")
def commands_of_up() -> set[bytes]:
    """The command lines of all processes while the first `up` ran."""
    return set()


def test_one_up_makes_bare_hosts_answer_over_the_gateway(
    checkout: Checkout, commands_of_up: set[bytes]
) -> None:
    with command_lines() as seen:
        checkout.slipway("up")
    commands_of_up |= seen
    answer = httpx.post(
        f"http://{EDGE}:8080/v1/chat/completions",
        json={"model": "sim-a", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
        timeout=HANG_S,
    )
    assert answer.raise_for_status().json()["choices"][0]["message"]["content"]


def test_a_second_up_changes_nothing(checkout: Checkout) -> None:
    done = checkout.slipway("up", "--json")
    log = (checkout.folder / ".slipway/pulumi" / f"{NAME}.log").read_text()
    assert json.loads(done.stdout.splitlines()[-1])["outputs"]
    assert "unchanged" in log.rpartition("Resources:")[2]
    assert "updated" not in log.rpartition("Resources:")[2]


def test_every_agent_is_a_unit_of_its_own_user_and_nothing_waits_to_start(
    checkout: Checkout, hosts: Bed
) -> None:
    wanted = {
        "server-0": {"consul", "nomad", "workload-keys"},
        "worker-0": {"consul", "nomad", "log-collectors"},
        "edge-0": {"consul", "nomad", "log-collectors"},
    }
    for name, units in wanted.items():
        listed = hosts.hosts[name].ssh("systemctl list-units 'slipway-*' --plain --no-legend")
        running = {line.split()[0] for line in listed.splitlines() if " running " in line}
        assert running == {f"slipway-{NAME}-{unit}.service" for unit in units}, listed


def test_consul_and_nomad_answer_the_operator_and_nobody_else(checkout: Checkout) -> None:
    for url in (
        f"https://{SERVER}:8501/v1/status/leader",
        f"https://{SERVER}:4646/v1/status/leader",
    ):
        assert httpx.get(url, verify=operator(checkout)).json()
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=False)


def test_metrics_are_for_those_with_a_certificate(checkout: Checkout) -> None:
    answers = {
        f"{EDGE}:9090/-/ready": 200,
        f"{EDGE}:9901/ready": 200,
        f"{EDGE}:8081/v1/health": None,  # only for Prometheus and its own node
    }
    for address, expected in answers.items():
        assert status(f"https://{address}", operator(checkout)) == expected, address
        assert status(f"https://{address}", verify=False) is None, address
        assert status(f"http://{address}", verify=False) in {400, None}, address


def status(url: str, verify: ssl.SSLContext | bool) -> int | None:
    """Of the answer; None if the connection is refused."""
    try:
        return httpx.get(url, verify=verify).status_code
    except httpx.TransportError:
        return None


def operator(checkout: Checkout) -> ssl.SSLContext:
    """TLS of a client with the operator's certificate."""
    return certificates.platform(checkout.folder / ".slipway/access" / NAME / "operator")


def test_a_replica_answers_only_over_tls_and_only_those_who_may_ask(checkout: Checkout) -> None:
    access = checkout.folder / ".slipway/access" / NAME
    token = {"X-Consul-Token": (access / "tokens/consul").read_text()}
    services = httpx.get(
        f"https://{SERVER}:8501/v1/catalog/services", headers=token, verify=operator(checkout)
    )
    ports = set()
    for service in services.json():
        if service.startswith("model-sim-a"):
            url = f"https://{SERVER}:8501/v1/catalog/service/{service}"
            for found in httpx.get(url, headers=token, verify=operator(checkout)).json():
                assert found["ServiceAddress"] == WORKER
                ports.add(found["ServicePort"])
    assert len(ports) == 3 * REPLICAS["min"]  # OpenAI's API, gRPC, Triton's metrics
    for port in ports:
        with pytest.raises(httpx.TransportError):  # plain text
            httpx.get(f"http://{WORKER}:{port}/metrics")
        with pytest.raises(httpx.TransportError):  # a certificate of another role
            httpx.get(f"https://{WORKER}:{port}/metrics", verify=operator(checkout))


def test_prometheus_scrapes_every_target_of_every_host(checkout: Checkout) -> None:
    url = f"https://{EDGE}:9090/api/v1/targets?state=active"
    for attempt in Retrying(stop=stop_after_delay(HANG_S), wait=wait_fixed(1), reraise=True):
        with attempt:
            answer = httpx.get(url, verify=operator(checkout))
            targets = answer.json()["data"]["activeTargets"]
            failing = {
                each["scrapeUrl"]: each["lastError"] for each in targets if each["health"] != "up"
            }
            assert targets
            assert not failing
    replicas = [each for each in targets if each["labels"].get("model") == "sim-a"]
    assert {each["scrapeUrl"].split(":")[0] for each in replicas} == {"https"}


def test_no_host_has_a_secret_that_others_can_read(checkout: Checkout, hosts: Bed) -> None:
    find = "find /var/lib/slipway /run/slipway -type f -perm /077"
    secret = "-name '*.pem' -o -name 'secrets.json' -o -path '*/tokens/*'"
    for name in ADDRESSES:
        host = hosts.hosts[name]
        assert host.ssh(f"{find} \\( {secret} \\)") == "", name
        assert host.ssh("find /var/lib/slipway -name key.pem").strip(), name


def test_no_private_key_is_plain_in_the_state_or_in_a_command_line(
    checkout: Checkout, hosts: Bed
) -> None:
    state = Path(checkout.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
    texts = [path.read_text(errors="replace") for path in state.rglob("*") if path.is_file()]
    assert any("certificate-host-worker-0" in text for text in texts)
    assert not [text for text in texts if "PRIVATE KEY" in text]
    assert not [text for text in texts if INTRODUCTION.search(text)]
    private = hosts.key.read_text().splitlines()[1]
    assert not [text for text in texts if private in text]
    for host in hosts.hosts.values():
        assert "PRIVATE KEY" not in host.ssh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


@pytest.fixture(scope="module")
def secrets(checkout: Checkout, hosts: Bed) -> dict[str, str]:
    return secrets_of(checkout, hosts, ADDRESSES)


def test_the_search_knows_every_kind_of_secret(secrets: dict[str, str]) -> None:
    names = " ".join(secrets)
    for kind in ("passphrase", "SSH key", "token of Consul", "token of Nomad", "operator's key"):
        assert kind in names
    for seed in ("authority-seed", "consul-seed", "nomad-seed"):
        assert seed in secrets
    # At least the authority's, those of the hosts and of the jobs, and the operator's.
    assert names.count("a private key of ") > len(ADDRESSES) + 2
    for host in ADDRESSES:
        assert f"{host}: " in names
    assert "consul/secrets.json, encrypt" in names
    assert "nomad/secrets.json, server.encrypt" in names
    assert not [text for text in secrets.values() if len(text) < 20]


def test_the_search_finds_what_is_planted_and_only_what_others_can_see(hosts: Bed) -> None:
    worker = hosts.hosts["worker-0"]
    with planted(worker) as canary:
        assert [place for place, _ in seen_on(worker, {"a canary": canary})] == PLANTED
    only_in_the_journal = [place for place, _ in seen_on(worker, {"a canary": canary})]
    assert only_in_the_journal == ["the journal"]


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_host_shows_a_secret(hosts: Bed, secrets: dict[str, str], name: str) -> None:
    assert seen_on(hosts.hosts[name], secrets) == []


def test_the_operators_machine_shows_no_secret(
    checkout: Checkout, secrets: dict[str, str], commands_of_up: set[bytes]
) -> None:
    assert seen_by_the_operator(checkout, secrets) == []
    assert any(b"agents.py" in line for line in commands_of_up)
    assert shown(commands_of_up, secrets) == []
    assert not [
        line for line in commands_of_up if INTRODUCTION.search(line.decode(errors="replace"))
    ]


def test_the_search_of_the_operators_machine_finds_what_is_planted(checkout: Checkout) -> None:
    canary = {"a canary": uuid.uuid4().hex}
    log = checkout.folder / ".slipway/pulumi/canary.log"
    known = checkout.folder / ".slipway/access" / NAME / "canary"
    try:
        log.write_text(f"a line with {canary['a canary']}\n")
        known.write_text(canary["a canary"])
        known.chmod(0o600)
        assert seen_by_the_operator(checkout, canary) == [(str(log), "a canary")]
        known.chmod(0o644)
        assert (str(known), "a canary") in seen_by_the_operator(checkout, canary)
    finally:
        log.unlink(missing_ok=True)
        known.unlink(missing_ok=True)


def test_a_secret_on_a_command_line_is_seen_while_it_runs(hosts: Bed) -> None:
    canary = {"a canary": uuid.uuid4().hex}
    with command_lines() as seen:
        # The host's own first argument, so that it is on no command line of this machine.
        hosts.hosts["edge-0"].ssh("sh -s", f"sh -c 'sleep 1; true' {canary['a canary']}")
    assert shown(seen, canary) == ["a canary"]


def test_an_added_host_changes_nothing_on_the_others(checkout: Checkout) -> None:
    checkout.put_workers(worker_0=WORKER, worker_1=SECOND_WORKER)
    checkout.slipway("up")
    # The gate waits for it; it runs on the operator's machine.
    assert checkout.changed() == {*own_resources("worker-1"), "pool-cpu-ready"}
    assert known(checkout, "worker-1") == {"Nomad": 1, "Consul": 1, "tokens": 2}


def test_a_removed_host_is_drained_first_and_no_request_fails(
    checkout: Checkout, hosts: Bed, before: dict[str, str]
) -> None:
    checkout.put_workers(worker_1=SECOND_WORKER)
    with streams(EDGE) as streamed:
        checkout.slipway("up")
    assert len(streamed.answers) > 20
    assert not streamed.failed
    assert hosts.hosts["worker-0"].ssh(LISTED) == before["worker-0"]
    assert hosts.hosts["worker-0"].ssh("ls -A /run/systemd/system") == ""
    assert hosts.hosts["worker-0"].ssh("ls -d /run/slipway 2>/dev/null || true") == ""
    assert checkout.changed() == {*own_resources("worker-0"), "pool-cpu-ready"}
    assert known(checkout, "worker-0") == NOTHING


@pytest.mark.soak
def test_a_host_that_was_reinstalled_is_admitted_again(checkout: Checkout, hosts: Bed) -> None:
    checkout.put_workers(worker_0=WORKER, worker_1=SECOND_WORKER)
    checkout.slipway("up")
    hosts.hosts["worker-0"].end()
    hosts.start("worker-0")
    hosts.wait_until_ready()
    checkout.slipway("admit", "worker-0")
    assert checkout.changed() == own_resources("worker-0") - {"certificate-host-worker-0"}
    assert known(checkout, "worker-0") == {"Nomad": 1, "Consul": 1, "tokens": 2}
    nodes = checkout.ask(f"{NOMAD}/v1/nodes")
    assert {each["Name"]: each["Status"] for each in nodes}["worker-0"] == "ready"


@pytest.mark.soak
def test_a_host_that_was_admitted_again_leaves_like_any_other(
    checkout: Checkout, hosts: Bed, before: dict[str, str]
) -> None:
    checkout.put_workers(worker_1=SECOND_WORKER)
    checkout.slipway("up")
    assert hosts.hosts["worker-0"].ssh(LISTED) == before["worker-0"]
    assert known(checkout, "worker-0") == NOTHING


NOTHING = {"Nomad": 0, "Consul": 0, "tokens": 0}


def own_resources(host: str) -> set[str]:
    return {f"{kind}-{host}" for kind in ("certificate-host", "delivery", "admission", "node")}


def known(checkout: Checkout, host: str) -> dict[str, int]:
    """How many nodes, members and tokens of this host the clusters have."""
    bound = [
        identity["NodeName"]
        for token in checkout.ask(f"{CONSUL}/v1/acl/tokens")
        for identity in token.get("NodeIdentities") or []
    ]
    return {
        "Nomad": [each["Name"] for each in checkout.ask(f"{NOMAD}/v1/nodes")].count(host),
        "Consul": [e["Name"] for e in checkout.ask(f"{CONSUL}/v1/agent/members")].count(host),
        "tokens": bound.count(host),
    }


def test_down_leaves_every_host_as_it_was(
    checkout: Checkout, hosts: Bed, before: dict[str, str]
) -> None:
    refused = checkout.slipway("down", "--yes", check=False)
    assert refused.returncode == 1
    assert f"slipway unprotect -s {NAME}" in refused.stderr
    checkout.slipway("unprotect")
    checkout.slipway("down", "--yes")
    for name, host in hosts.hosts.items():
        assert host.ssh(LISTED) == before[name], name
        assert host.ssh("systemctl list-units 'slipway-*' --plain --no-legend") == ""
        assert host.ssh("pgrep -f '[/]opt/slipway' || true") == ""
