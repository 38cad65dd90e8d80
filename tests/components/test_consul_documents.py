"""Consul's agents and permissions as documents, and what the real Consul says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.consul import acl
from components.consul import agent_config as consul
from components.consul.task_roles import task_roles
from components.joining.tokens import HostTokens
from slipway.plan.platform import PlatformPlan
from tests.binaries import find
from tests.components.cluster_plan import cluster_plan
from tests.components.golden import assert_golden

SEED = "a seed of no cluster"
ADDRESS = "https://127.77.0.1:8501"
JWKS = "https://127.77.0.1:4645/.well-known/jwks.json"
JOINING = HostTokens()
ROLES = task_roles(cluster_plan())


def permissions(plan: PlatformPlan) -> dict[str, Any]:
    return acl.acl_document(ADDRESS, JOINING.tokens(plan), ROLES.values())


def acl_secrets(plan: PlatformPlan, seed: str) -> dict[str, Any]:
    return acl.acl_secrets(JOINING.token_secrets(plan, seed), seed)


def test_the_permissions_are_rendered_whole() -> None:
    assert_golden("node/consul-acl.json", permissions(cluster_plan()))


def test_the_auth_method_for_workloads_is_rendered_whole() -> None:
    assert_golden("node/consul-workloads.json", acl.workload_document(ADDRESS, JWKS, ROLES))


def test_every_token_has_a_secret_of_its_own() -> None:
    plan = cluster_plan()
    tokens = permissions(plan)["tokens"]
    secrets = acl_secrets(plan, SEED)
    assert {token["AccessorID"] for token in tokens} == set(secrets["tokens"])
    every = [*secrets["tokens"].values(), secrets["management_token"]]
    assert len(set(every)) == len(tokens) + 1


def test_agents_hold_the_tokens_that_the_permissions_make() -> None:
    plan = cluster_plan()
    made = acl_secrets(plan, SEED)["tokens"].values()
    tokens = consul.client_secrets(SEED, JOINING.consul_token("cpu-1", SEED))["acl"]["tokens"]
    assert set(tokens) == {"agent", "config_file_service_registration"}
    assert set(tokens.values()) <= set(made)


def test_only_servers_hold_the_management_token() -> None:
    management = acl_secrets(cluster_plan(), SEED)["management_token"]
    assert management in json.dumps(
        consul.server_secrets(SEED, JOINING.consul_token("server-0", SEED))
    )
    assert management not in json.dumps(
        consul.client_secrets(SEED, JOINING.consul_token("cpu-0", SEED))
    )


def test_another_seed_shares_no_secret() -> None:
    one, other = (set(acl_secrets(cluster_plan(), seed)["tokens"].values()) for seed in "ab")
    assert one.isdisjoint(other)


def test_policies_let_tasks_write_weights_only() -> None:
    written = {
        line
        for role in ROLES.values()
        for line in acl.POLICIES[role].splitlines()
        if "write" in line
    }
    assert written == {
        'key_prefix "slipway/weights/" { policy = "write" }',
        'session_prefix "" { policy = "write" }',
    }


def test_of_three_servers_each_joins_the_others_and_waits_for_all() -> None:
    plan = cluster_plan(servers=3)
    configuration = consul.server_agent(plan, plan.servers[1]).configuration
    assert configuration["bootstrap_expect"] == 3
    assert configuration["retry_join"] == ["127.77.0.1", "127.77.0.3"]


def test_a_single_server_joins_no_other() -> None:
    plan = cluster_plan()
    assert "retry_join" not in consul.server_agent(plan, plan.servers[0]).configuration


def write_files(folder: Path, configuration: Any, secrets: Any) -> None:
    filled = json.dumps(configuration).replace("@agent@", str(folder))
    (folder / "config.json").write_text(filled)
    (folder / "secrets.json").write_text(json.dumps(secrets))


@pytest.mark.binaries
@pytest.mark.parametrize("servers", [1, 3])
def test_consul_accepts_a_server(tmp_path: Path, servers: int) -> None:
    plan = cluster_plan(servers=servers)
    configuration = consul.server_agent(plan, plan.servers[0]).configuration
    write_files(
        tmp_path, configuration, consul.server_secrets(SEED, JOINING.consul_token("server-0", SEED))
    )
    assert_valid(tmp_path)


@pytest.mark.binaries
def test_consul_accepts_a_client(tmp_path: Path) -> None:
    plan = cluster_plan()
    configuration = consul.client_agent(plan, plan.pools[0].hosts[0]).configuration
    write_files(
        tmp_path, configuration, consul.client_secrets(SEED, JOINING.consul_token("cpu-0", SEED))
    )
    assert_valid(tmp_path)


@pytest.mark.binaries
def test_consul_refuses_a_misspelt_option(tmp_path: Path) -> None:
    plan = cluster_plan()
    configuration = dict(consul.server_agent(plan, plan.servers[0]).configuration)
    write_files(tmp_path, configuration | {"bind_adr": "127.77.0.1"}, {})
    assert validate(tmp_path).returncode != 0


def assert_valid(folder: Path) -> None:
    result = validate(folder)
    assert result.returncode == 0, result.stdout + result.stderr


def validate(folder: Path) -> subprocess.CompletedProcess[str]:
    files = [str(folder / "config.json"), str(folder / "secrets.json")]
    command = [str(find("consul")), "validate", *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
