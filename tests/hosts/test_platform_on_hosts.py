"""The whole platform on hosts: from machines with nothing on them to an answer, and back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from slipway.cli import certificates
from tests.hosts.bed import Bed
from tests.hosts.conftest import ADDRESSES
from tests.live.environments import SIMULATED_ENGINE, copy_tree
from toolchain.settings import default_cache

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

NAME = "hosts"
EDGE, SERVER = ADDRESSES["edge-0"], ADDRESSES["server-0"]
# What a host has more of after a removal is seen here; what agents write elsewhere would be too.
LISTED = (
    "find /etc /opt /usr/local /var/lib /root -xdev -not -path '/var/lib/postgresql/*' | sort;"
    " getent passwd; getent group"
)


@dataclass(frozen=True)
class Checkout:
    folder: Path
    environ: dict[str, str]

    def slipway(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["./slipway", *arguments, "-s", NAME],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done


@pytest.fixture(scope="module")
def before(hosts: Bed) -> dict[str, str]:
    return {name: host.ssh(LISTED) for name, host in hosts.hosts.items()}


@pytest.fixture(scope="module")
def checkout(
    hosts: Bed, before: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checkout]:
    """A checkout with an environment of the bed's hosts; taken down at the end."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_tree(folder)
    shutil.copy(hosts.known_hosts, folder / "known_hosts")
    write_environment(folder, key=hosts.key)
    state = tmp_path_factory.mktemp("state")
    environ = {
        **os.environ,
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "a passphrase of a test",
        "PULUMI_HOME": str(tmp_path_factory.mktemp("pulumi")),
        "SLIPWAY_CACHE": str(default_cache()),
    }
    made = Checkout(folder, environ)
    try:
        yield made
    finally:
        made.slipway("down", "--yes", check=False)


def write_environment(folder: Path, *, key: Path) -> None:
    pools = {
        pool: {
            "kind": "metal",
            "hosts": [{"name": host, "address": ADDRESSES[host]}],
            "memory": "4GiB",
            "cpu": 2,
        }
        for pool, host in (("cpu", "worker-0"), ("edge", "edge-0"))
    }
    config = {
        "slipway:target": "metal",
        "slipway:network": {"cidr": "10.77.0.0/24"},
        "slipway:ssh": {"known_hosts": "known_hosts", "key": str(key)},
        "slipway:server_hosts": [{"name": "server-0", "address": SERVER}],
        "slipway:pools": pools,
        "slipway:models": {"sim-a": {"pool": "cpu", "replicas": {"min": 1, "max": 2}}},
    }
    (folder / f"Pulumi.{NAME}.yaml").write_text(yaml.safe_dump({"config": config}))
    (folder / "models/sim-a.yaml").write_text(
        yaml.safe_dump({"name": "sim-a", "engine": SIMULATED_ENGINE})
    )


def test_one_up_makes_bare_hosts_answer_over_the_gateway(checkout: Checkout) -> None:
    checkout.slipway("up")
    answer = httpx.post(
        f"http://{EDGE}:8080/v1/chat/completions",
        json={"model": "sim-a", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
        timeout=10,
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
    operator = certificates.platform(checkout.folder / ".slipway/access" / NAME / "operator")
    for url in (
        f"https://{SERVER}:8501/v1/status/leader",
        f"https://{SERVER}:4646/v1/status/leader",
    ):
        assert httpx.get(url, verify=operator).json()
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=False)


def test_no_host_has_a_secret_that_others_can_read(checkout: Checkout, hosts: Bed) -> None:
    find = "find /var/lib/slipway /run/slipway -type f -perm /077"
    secret = "-name '*.pem' -o -name 'secrets.json' -o -path '*/tokens/*'"
    for name, host in hosts.hosts.items():
        assert host.ssh(f"{find} \\( {secret} \\)") == "", name
        assert host.ssh("find /var/lib/slipway -name key.pem").strip(), name


def test_no_private_key_is_plain_in_the_state_or_in_a_command_line(
    checkout: Checkout, hosts: Bed
) -> None:
    state = Path(checkout.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
    texts = [path.read_text(errors="replace") for path in state.rglob("*") if path.is_file()]
    assert any("certificate-host-worker-0" in text for text in texts)
    assert not [text for text in texts if "PRIVATE KEY" in text]
    private = hosts.key.read_text().splitlines()[1]
    assert not [text for text in texts if private in text]
    for host in hosts.hosts.values():
        assert "PRIVATE KEY" not in host.ssh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_down_leaves_every_host_as_it_was(
    checkout: Checkout, hosts: Bed, before: dict[str, str]
) -> None:
    checkout.slipway("down", "--yes")
    for name, host in hosts.hosts.items():
        assert host.ssh(LISTED) == before[name], name
        assert host.ssh("systemctl list-units 'slipway-*' --plain --no-legend") == ""
        assert host.ssh("pgrep -f '[/]opt/slipway' || true") == ""
