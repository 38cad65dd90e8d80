"""Nomad's agents as documents, and what the real Nomad says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.consul import agent_config as consul
from components.joining.tokens import HostTokens
from components.nomad import agent_config as nomad
from tests.binaries import find
from tests.components.cluster_plan import cluster_plan

SEED = "a seed of no cluster"
JOINING = HostTokens()


def client_configuration() -> dict[str, Any]:
    plan = cluster_plan()
    agent = nomad.client_agent(plan, plan.pools[0], plan.pools[0].hosts[0], drain_timeout_s=600)
    return dict(agent.configuration)


def server_configuration(servers: int = 1) -> dict[str, Any]:
    plan = cluster_plan(servers=servers)
    return dict(nomad.server_agent(plan, plan.servers[0], JOINING).configuration)


def test_a_client_offers_what_the_pool_says() -> None:
    client = client_configuration()["client"]
    assert client["cpu_total_compute"] == 4000
    assert client["memory_total_mb"] == 4096


def test_a_client_keeps_its_tasks_when_it_restarts_and_drains_when_it_is_told_to_leave() -> None:
    configuration = client_configuration()
    assert not configuration.get("leave_on_terminate", False)
    assert configuration["leave_on_interrupt"]
    assert configuration["client"]["drain_on_shutdown"] == {"deadline": "600s"}


def test_a_server_runs_no_tasks_and_a_client_is_not_a_server() -> None:
    server, client = server_configuration(), client_configuration()
    assert "client" not in server
    assert "plugin" not in server
    assert "server" not in client


def test_only_one_of_several_servers_says_who_leads() -> None:
    for servers in (1, 3):
        plan = cluster_plan(servers=servers)
        for agent in (
            nomad.server_agent(plan, plan.servers[-1], JOINING),
            consul.server_agent(plan, plan.servers[-1]),
        ):
            assert agent.leader_url.endswith("/v1/status/leader") == (servers > 1)


def test_agents_hold_the_consul_token_made_for_their_host() -> None:
    made = JOINING.token_secrets(cluster_plan(), SEED).values()
    tokens = {
        nomad.client_secrets(JOINING.nomad_token("cpu-0", SEED))["consul"]["token"],
        nomad.client_secrets(JOINING.nomad_token("cpu-1", SEED))["consul"]["token"],
        nomad.server_secrets("other", JOINING.nomad_token("server-0", SEED))["consul"]["token"],
    }
    assert len(tokens) == 3
    assert tokens <= set(made)


def test_a_client_does_not_know_the_gossip_key() -> None:
    key = nomad.server_secrets(SEED, JOINING.nomad_token("server-0", "other"))["server"]["encrypt"]
    assert key not in json.dumps(nomad.client_secrets(JOINING.nomad_token("cpu-0", SEED)))


@pytest.mark.binaries
@pytest.mark.parametrize("servers", [1, 3])
def test_nomad_accepts_a_server(tmp_path: Path, servers: int) -> None:
    secrets = nomad.server_secrets(SEED, JOINING.nomad_token("server-0", SEED))
    assert_valid(tmp_path, server_configuration(servers), secrets)


@pytest.mark.binaries
def test_nomad_accepts_a_client(tmp_path: Path) -> None:
    assert_valid(
        tmp_path, client_configuration(), nomad.client_secrets(JOINING.nomad_token("cpu-0", SEED))
    )


@pytest.mark.binaries
def test_nomad_refuses_a_misspelt_option(tmp_path: Path) -> None:
    wrong = client_configuration() | {"data_dri": "/nowhere"}
    assert validate(tmp_path, wrong, {}).returncode != 0


def assert_valid(folder: Path, configuration: Any, secrets: Any) -> None:
    result = validate(folder, configuration, secrets)
    assert result.returncode == 0, result.stdout + result.stderr


def validate(folder: Path, configuration: Any, secrets: Any) -> subprocess.CompletedProcess[str]:
    filled = json.dumps(configuration)
    for placeholder in ("@agent@", "@cache@", "@scratch@"):
        filled = filled.replace(placeholder, str(folder))
    (folder / "config.json").write_text(filled)
    (folder / "secrets.json").write_text(json.dumps(secrets))
    files = [str(folder / "config.json"), str(folder / "secrets.json")]
    command = [str(find("nomad")), "config", "validate", *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
