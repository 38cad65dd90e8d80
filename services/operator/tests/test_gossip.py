"""A gossip key replaced in a real cluster, and agents that were away meanwhile."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator

import pytest
from cluster import Cluster, running_cluster
from gossip.keyrings import KEYRINGS, Keyring
from hangs import HANG_S
from program.http_json import ApiError
from program.waiting import wait_until

pytestmark = pytest.mark.binaries

NETWORK = "127.104.0."


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(NETWORK) as made:
        yield made


def rotate(cluster: Cluster, system: str, key: str) -> subprocess.CompletedProcess[str]:
    addresses = {"consul": cluster.consul_address(), "nomad": cluster.address(1, 4646)}
    nowhere = cluster.address(9, 4646)  # a server that is down
    return cluster.program(
        "rotate_gossip.py",
        "apply",
        document={
            "schema_version": 1,
            "system": system,
            "servers": [nowhere, addresses[system]],
            "generation": 2,
            "timeout_s": 300,
        },
        secrets={"schema_version": 1, "management_token": cluster.management[system], "key": key},
    )


def keyring(cluster: Cluster, system: str) -> Keyring:
    token = cluster.management[system]
    return KEYRINGS[system](cluster.consul(token) if system == "consul" else cluster.nomad(token))


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@pytest.mark.parametrize(("system", "agents"), [("consul", 2), ("nomad", 1)])
def test_every_agent_uses_the_new_key_alone_and_none_restarts(
    cluster: Cluster, system: str, agents: int
) -> None:
    before, key = cluster.pids(), new_key()
    done = rotate(cluster, system, key)
    assert done.returncode == 0, done.stdout + done.stderr
    found = keyring(cluster, system).keys()
    assert (found.known_to, found.agents) == ({key: agents}, agents)
    assert key not in done.stdout + done.stderr
    assert cluster.pids() == before
    assert rotate(cluster, system, key).returncode == 0


def test_a_rotation_that_was_killed_goes_on(cluster: Cluster) -> None:
    key = new_key()
    keyring(cluster, "consul").install(key)
    assert rotate(cluster, "consul", key).returncode == 0
    assert keyring(cluster, "consul").keys().known_to == {key: 2}


def test_an_agent_that_was_away_finds_the_others_with_the_key_in_its_files(
    cluster: Cluster,
) -> None:
    key = new_key()
    cluster.program("agents.py", "stop")
    cluster.keys["consul"] = key
    cluster.apply("agents.py", cluster.golden("server-0-consul"), cluster.agent_secrets("server-0"))
    wait_until("the server", lambda: _not(cluster, {key: 1}), HANG_S)
    cluster.apply("agents.py", cluster.golden("server-0-nomad"), cluster.agent_secrets("server-0"))
    cluster.apply("agents.py", cluster.golden("cpu-0"), cluster.agent_secrets("cpu-0"))
    wait_until("both agents", lambda: _not(cluster, {key: 2}), HANG_S)


def _not(cluster: Cluster, wanted: dict[str, int]) -> str | None:
    try:
        found = keyring(cluster, "consul").keys().known_to
    except ApiError as error:
        return str(error)
    return None if found == wanted else f"{len(found)} keys"


def test_without_a_cluster_there_is_nothing_to_replace(cluster: Cluster) -> None:
    document = {
        "schema_version": 1,
        "system": "consul",
        "servers": [cluster.address(9, 8501)],
        "generation": 2,
        "timeout_s": 300,
    }
    secrets = {"schema_version": 1, "management_token": "none", "key": new_key()}
    done = cluster.program("rotate_gossip.py", "apply", document=document, secrets=secrets)
    assert done.returncode == 0
    assert "does not run yet" in done.stdout
