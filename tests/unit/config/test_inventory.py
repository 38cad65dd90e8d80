"""The file with the hosts of an environment, which slipway:inventory names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.config.errors import ConfigError, Problem
from slipway.config.files import load_environment
from slipway.config.metal import MetalPool, MetalSettings

CPU = {"kind": "metal", "memory": "64GiB", "cpu": 32}
VALUES: dict[str, Any] = {
    "target": "metal",
    "network": {"cidr": "10.40.0.0/16"},
    "ssh": {"known_hosts": "known_hosts", "key": "key"},
    "inventory": "hosts.yaml",
    "pools": {
        "cpu": CPU,
        "edge": CPU | {"hosts": [{"name": "edge-0", "address": "10.40.0.31"}]},
        "gpu": CPU | {"accelerator": "L40S", "accelerators_per_node": 8, "nodes": 2},
    },
    "models": {},
}
SERVER = {"name": "rack1", "address": "10.40.0.11", "role": "server"}
WORKER = {"name": "rack2", "address": "10.40.0.21", "pool": "cpu"}
HOSTS = [SERVER, WORKER]


def write(root: Path, hosts: Any, **changes: Any) -> None:
    config = {f"slipway:{key}": value for key, value in (VALUES | changes).items()}
    (root / "Pulumi.own.yaml").write_text(yaml.safe_dump({"config": config}))
    (root / "hosts.yaml").write_text(yaml.safe_dump(hosts))


def settings_of(root: Path) -> MetalSettings:
    settings = load_environment(root, "own").settings
    assert isinstance(settings, MetalSettings)
    return settings


def hosts_of(settings: MetalSettings, pool: str) -> dict[str, str]:
    found = settings.pools[pool]
    assert isinstance(found, MetalPool)
    return {host.name: host.address for host in found.hosts}


def problem_of(root: Path) -> Problem:
    with pytest.raises(ConfigError) as refused:
        load_environment(root, "own")
    (problem,) = refused.value.problems
    return problem


def test_hosts_of_the_file_are_servers_or_belong_to_pools(tmp_path: Path) -> None:
    write(tmp_path, {"hosts": HOSTS})
    settings = settings_of(tmp_path)
    assert [host.name for host in settings.server_hosts] == ["rack1"]
    assert hosts_of(settings, "cpu") == {"rack2": "10.40.0.21"}
    assert hosts_of(settings, "edge") == {"edge-0": "10.40.0.31"}


def test_they_stand_behind_those_of_the_stack_file(tmp_path: Path) -> None:
    more = {"name": "rack3", "address": "10.40.0.32", "pool": "edge"}
    write(
        tmp_path,
        {"hosts": [*HOSTS, more, SERVER | {"name": "c", "address": "10.40.0.12"}]},
        servers=3,
        server_hosts=[{"name": "rack0", "address": "10.40.0.10"}],
    )
    settings = settings_of(tmp_path)
    assert [host.name for host in settings.server_hosts] == ["rack0", "rack1", "c"]
    assert list(hosts_of(settings, "edge")) == ["edge-0", "rack3"]


def test_json_is_read_too_also_indented_by_tabs(tmp_path: Path) -> None:
    write(tmp_path, {"hosts": HOSTS}, inventory="hosts.json")
    (tmp_path / "hosts.json").write_text(json.dumps({"hosts": HOSTS}, indent="\t"))
    assert hosts_of(settings_of(tmp_path), "cpu") == {"rack2": "10.40.0.21"}


def test_a_host_says_what_differs_from_the_others_in_ssh(tmp_path: Path) -> None:
    ssh = {"user": "ops", "port": 2222, "key": "other"}
    write(tmp_path, {"hosts": [SERVER, WORKER | {"ssh": ssh}]})
    pool = settings_of(tmp_path).pools["cpu"]
    assert isinstance(pool, MetalPool)
    assert pool.hosts[0].ssh.model_dump() == ssh


# the hosts of the file, then the complaint: line, key, words in message, value, words in fix
MISTAKES: dict[str, tuple[list[dict[str, Any]], tuple[str, str, Any, str]]] = {
    "a name twice": (
        [*HOSTS, WORKER | {"address": "10.40.0.22"}],
        ("hosts.2.name", "is already a host of pool cpu in hosts.yaml", "rack2", "every host once"),
    ),
    "an address of a server and of a pool": (
        [*HOSTS, WORKER | {"name": "rack3", "address": "10.40.0.11"}],
        ("hosts.2.address", "is already a server in hosts.yaml", "10.40.0.11", "every host once"),
    ),
    "a name of the stack file": (
        [*HOSTS, WORKER | {"name": "edge-0", "address": "10.40.0.22"}],
        ("hosts.2.name", "is already a host of pool edge in Pulumi.own.yaml", "edge-0", "once"),
    ),
    "an address of the stack file": (
        [*HOSTS, WORKER | {"name": "rack3", "address": "10.40.0.31"}],
        ("hosts.2.address", "is already a host of pool edge in Pulumi.own.yaml", "10.40.0.31", ""),
    ),
    "an unknown pool": (
        [*HOSTS, {"name": "rack3", "address": "10.40.0.22", "pool": "cpus"}],
        ("hosts.2.pool", "a pool this environment does not have", "cpus", 'did you mean "cpu"?'),
    ),
    "an unknown role": (
        [*HOSTS, {"name": "rack3", "address": "10.40.0.22", "role": "servr"}],
        ("hosts.2.role", "must be 'server'", "servr", 'did you mean "server"?'),
    ),
    "neither a pool nor a role": (
        [*HOSTS, {"name": "rack3", "address": "10.40.0.22"}],
        ("hosts.2", "must have a `pool` or `role: server`", "rack3", "pool: cpu"),
    ),
    "both a pool and a role": (
        [*HOSTS, WORKER | {"name": "rack3", "address": "10.40.0.22", "role": "server"}],
        ("hosts.2", "one of the two", "rack3", "pool: cpu"),
    ),
    "an address outside the network": (
        [SERVER, WORKER | {"address": "10.50.0.21"}],
        ("hosts.1.address", "outside the network, which is 10.40.0.0/16", "10.50.0.21", "correct"),
    ),
    "an IPv6 address": (
        [SERVER, WORKER | {"address": "fd00::21"}],
        ("hosts.1.address", "is not an IPv4 address", "fd00::21", "write it like"),
    ),
    "a host name for an address": (
        [SERVER, WORKER | {"address": "rack2.example.com"}],
        ("hosts.1.address", "is not an IPv4 address", "rack2.example.com", "write it like"),
    ),
    "an unknown field": (
        [SERVER, WORKER | {"adress": "10.40.0.21"}],
        ("hosts.1.adress", "unknown key", "10.40.0.21", 'did you mean "address"?'),
    ),
    "an unknown field of ssh": (
        [SERVER, WORKER | {"ssh": {"users": "ops"}}],
        ("hosts.1.ssh.users", "unknown key", "ops", 'did you mean "user"?'),
    ),
    "a port that is none": (
        [SERVER, WORKER | {"ssh": {"port": 0}}],
        ("hosts.1.ssh.port", "must be at least 1", 0, "1 or more"),
    ),
    "a host of a pool that is named like a server": (
        [SERVER, WORKER | {"name": "server-3"}],
        ("hosts.1.name", "is named like a server", "server-3", "rename the host"),
    ),
    "accelerators that its pool does not have": (
        [SERVER, WORKER | {"accelerators": 8}],
        ("hosts.1.accelerators", "slipway:pools.cpu says, which is 0", 8, "write 0"),
    ),
    "a server with accelerators": (
        [SERVER | {"accelerators": 8}, WORKER],
        ("hosts.0.accelerators", "servers have, which is 0", 8, "write 0"),
    ),
    "an entry that is no mapping": (
        [SERVER, WORKER, "rack3"],  # type: ignore[list-item]
        ("hosts.2", "a mapping of keys to values", "rack3", "{name: rack1-3, "),
    ),
}


@pytest.mark.parametrize(("hosts", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_file_line_key_value_and_fix(
    tmp_path: Path, hosts: list[dict[str, Any]], complaint: tuple[str, str, Any, str]
) -> None:
    write(tmp_path, {"hosts": hosts})
    found = problem_of(tmp_path)
    key, message, value, fix = complaint
    assert (found.source, found.key, found.value) == ("hosts.yaml", key, value)
    assert message in found.message
    assert fix in found.fix
    line = (tmp_path / "hosts.yaml").read_text().splitlines()[(found.line or 0) - 1]
    assert key.rpartition(".")[2] in line if not key[-1].isdigit() else line.startswith("- ")


def test_hosts_of_a_pool_that_counts_its_nodes_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path, {"hosts": [*HOSTS, WORKER | {"name": "a", "address": "10.40.0.9", "pool": "gpu"}]}
    )
    found = problem_of(tmp_path)
    assert (found.source, found.key) == ("Pulumi.own.yaml", "slipway:pools.gpu")
    assert "both fixed `hosts` and a number of `nodes`" in found.message


def test_fewer_servers_than_the_stack_file_says_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"hosts": HOSTS}, servers=3)
    found = problem_of(tmp_path)
    assert (found.key, found.value) == ("slipway:inventory", 1)
    assert "slipway:servers says, which is 3" in found.message


@pytest.mark.parametrize("count", [2, 4])
def test_an_even_number_of_servers_is_refused(tmp_path: Path, count: int) -> None:
    servers = [SERVER | {"name": f"s{k}", "address": f"10.40.1.{k}"} for k in range(count)]
    write(tmp_path, {"hosts": [*servers, WORKER]}, servers=count)
    found = problem_of(tmp_path)
    assert (found.key, found.message) == ("slipway:servers", "must be 1, 3 or 5")


def test_the_gateways_shared_address_is_no_hosts(tmp_path: Path) -> None:
    write(tmp_path, {"hosts": HOSTS}, gateway={"pool": "edge", "address": "10.40.0.21"})
    found = problem_of(tmp_path)
    assert (found.key, found.value) == ("slipway:gateway.address", "10.40.0.21")
    assert found.message == "is the address of host rack2"


def test_a_file_that_does_not_exist_is_named_where_it_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, {"hosts": HOSTS}, inventory="host.yaml")
    found = problem_of(tmp_path)
    assert (found.source, found.key, found.value) == (
        "Pulumi.own.yaml",
        "slipway:inventory",
        "host.yaml",
    )
    assert "no such file" in found.message
    line = (tmp_path / "Pulumi.own.yaml").read_text().splitlines()[(found.line or 0) - 1]
    assert "slipway:inventory" in line


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("", "hosts", "is required"),
        ("hosts: []", "hosts", "must not be empty"),
        ("hosts: [", "", "is not valid YAML"),
        ("- name: rack1", "", "must be a mapping"),
        ("host: []", "host", "unknown key"),
        ("hosts: 3", "hosts", "must be a list"),
        ("hosts: []\nhosts: []", "hosts", "is written twice, first on line 1"),
    ],
    ids=["empty", "no hosts", "no YAML", "a list", "an unknown key", "a number", "a key twice"],
)
def test_a_file_that_lists_nothing_is_refused(
    tmp_path: Path, text: str, key: str, message: str
) -> None:
    write(tmp_path, {})
    (tmp_path / "hosts.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_environment(tmp_path, "own")
    found = {each.key: each for each in refused.value.problems}[key]
    assert found.source == "hosts.yaml"
    assert message in found.message


def test_a_key_of_one_host_needs_one_for_the_others(tmp_path: Path) -> None:
    hosts = [SERVER, WORKER | {"ssh": {"key": "other"}}]
    write(tmp_path, {"hosts": hosts}, ssh={"known_hosts": "known_hosts"})
    found = problem_of(tmp_path)
    assert (found.source, found.key, found.value) == ("hosts.yaml", "hosts.1.ssh.key", "other")
    assert "slipway:ssh names none" in found.message


def test_more_keys_than_ssh_servers_let_a_client_offer_are_refused(tmp_path: Path) -> None:
    def hosts(count: int) -> list[dict[str, Any]]:
        own = [
            WORKER | {"name": f"w{k}", "address": f"10.40.2.{k}", "ssh": {"key": f"key-{k}"}}
            for k in range(count)
        ]
        return [SERVER, *own]

    write(tmp_path, {"hosts": hosts(4)})
    assert settings_of(tmp_path)
    write(tmp_path, {"hosts": hosts(5)})
    found = problem_of(tmp_path)
    assert (found.key, found.value) == ("hosts.5.ssh.key", "key-4")
    assert "is one of 6 keys" in found.message


def test_only_owned_machines_are_listed_in_files(tmp_path: Path) -> None:
    local = {"cpu": {"kind": "local", "nodes": 1}, "edge": {"kind": "local", "nodes": 1}}
    write(tmp_path, {"hosts": HOSTS}, target="dev", network={"cidr": "127.77.0.0/24"}, pools=local)
    with pytest.raises(ConfigError) as refused:
        load_environment(tmp_path, "own")
    assert "slipway:inventory" in {each.key for each in refused.value.problems}
