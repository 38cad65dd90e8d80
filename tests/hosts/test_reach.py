"""A laptop that reaches one jump host only brings up, asks and takes down what is behind it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.environment import Environment
from tests.hosts.bed import JUMP, NETWORK, Bed
from tests.hosts.environment import NAME, Checkout, environment, listed, must_complete
from tests.waiting import HANG_S, until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SERVERS = {f"server-{k}": f"{NETWORK}.1{1 + k}" for k in range(3)}
EDGE = f"{NETWORK}.31"
WORKER = {"worker-0": f"{NETWORK}.21"}
EDGES = {"edge-0": EDGE, "edge-1": f"{NETWORK}.32"}
HOSTS = {**SERVERS, **WORKER, **EDGES}
ASK_NOMAD = (
    'curl -sS --cacert "$NOMAD_CACERT" --cert "$NOMAD_CLIENT_CERT" --key "$NOMAD_CLIENT_KEY"'
    ' --connect-to "::${NOMAD_ADDR#https://}" -H "X-Nomad-Token: $NOMAD_TOKEN"'
    ' "https://$NOMAD_TLS_SERVER_NAME/v1/nodes"'
)


def pools(edges: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "cpu": {"kind": "metal", "hosts": listed(WORKER), "memory": "16GiB", "cpu": 8},
        "edge": {"kind": "metal", "hosts": listed(edges), "memory": "4GiB", "cpu": 2},
    }


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**HOSTS, "jump": f"{NETWORK}.41"}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    with hosts.laptop("jump") as inside:
        ssh = {"known_hosts": "known_hosts", "key": str(hosts.key), "jump": {"host": JUMP}}
        settings = {
            "servers": 3,
            "server_hosts": listed(SERVERS),
            "ssh": ssh,
            "pools": pools(EDGES),
            "gateway": {"pool": "edge", "address": f"{NETWORK}.50"},
        }
        models = {"sim-a": {"min": 1, "max": 1}}
        with environment(
            hosts, tmp_path_factory, models=models, settings=settings, inside=inside
        ) as made:
            yield made


@pytest.fixture(scope="module")
def platform(checkout: Checkout) -> Checkout:
    checkout.slipway("up")
    return checkout


def test_there_is_no_way_to_a_server_but_through_the_jump_host(checkout: Checkout) -> None:
    for address in HOSTS.values():
        route = [*checkout.inside, "ip", "route", "get", address]
        done = subprocess.run(route, capture_output=True, text=True, check=False)
        assert "unreachable" in done.stderr


def test_an_up_through_the_jump_host_brings_everything_up(platform: Checkout) -> None:
    must_complete(EDGE)
    assert platform.slipway("chat", "sim-a", "hello").stdout
    status = json.loads(platform.slipway("status", "--json").stdout)
    assert status["unreachable"] == {}
    assert status["models"]["sim-a"]["ready"]
    assert left_over(platform) == []


def test_a_second_preview_is_empty(platform: Checkout) -> None:
    platform.slipway("preview", "--expect-no-changes")
    assert left_over(platform) == []


def test_every_host_is_seen(platform: Checkout) -> None:
    document = json.loads(platform.slipway("hosts", "--json").stdout)
    assert document["unreachable"] == {}
    assert {row["name"] for row in document["hosts"]} == set(HOSTS)
    assert {row["consul"]["state"] for row in document["hosts"]} == {"alive"}
    assert {row["not_reached"] and row["not_reached"]["reason"] for row in document["hosts"]} == {
        None
    }


def test_other_programs_reach_it_with_what_reach_prints(platform: Checkout) -> None:
    with platform.running("reach", errors=subprocess.PIPE) as reach:
        assert reach.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("export NOMAD_TOKEN"):
            lines.append(reach.stdout.readline())
            assert lines[-1], "it has ended"
        secrets = [
            (platform.folder / ".slipway/access" / NAME / "tokens" / system).read_text()
            for system in ("consul", "nomad")
        ]
        assert not any(secret in line for secret in secrets for line in lines)
        asked = in_a_shell(platform, lines, ASK_NOMAD)
        assert {node["Name"] for node in json.loads(asked)} == {*WORKER, *EDGES}
        previewed = in_a_shell(
            platform, lines, f"pulumi preview --non-interactive -s {NAME} --expect-no-changes"
        )
        assert re.search(r"\d+ unchanged", previewed)
        platform.slipway("hosts")  # shares the forwards, and leaves them to the other
        assert json.loads(in_a_shell(platform, lines, ASK_NOMAD))
        reach.send_signal(signal.SIGINT)
        assert reach.wait(HANG_S) == 0
    assert left_over(platform) == []


def test_an_edge_host_is_removed(platform: Checkout) -> None:
    """The gate before old jobs are removed asks its control plane as long as it runs."""
    platform.put("pools", pools({"edge-0": EDGE}))
    platform.slipway("up")
    assert platform.changed()
    must_complete(EDGE)
    left = json.loads(platform.slipway("hosts", "--json").stdout)["hosts"]
    assert {row["name"] for row in left} == set(HOSTS) - {"edge-1"}


def in_a_shell(checkout: Checkout, lines: list[str], command: str) -> str:
    done = subprocess.run(
        [*checkout.inside, "sh", "-ec", "".join([*lines, command])],
        cwd=checkout.folder,
        env=checkout.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_left_of_an_up_that_is_killed(platform: Checkout) -> None:
    with platform.running("up") as up:
        until(lambda: "ssh" in {process.name() for process in left_over(platform)})
        os.kill(up.pid, signal.SIGKILL)
        until(lambda: left_over(platform) == [])


def test_an_up_goes_on_through_another_server_when_the_first_is_dead(
    platform: Checkout, hosts: Bed
) -> None:
    hosts.hosts.pop("server-0").end()
    platform.put("models", {"sim-a": {"pool": "cpu", "replicas": {"min": 1, "max": 2}}})
    done = platform.slipway("up", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "server-0 is" in "".join(done.stderr.splitlines()[-2:])
    assert platform.changed()
    must_complete(EDGE)
    hosts.start("server-0", same_disk=True)
    hosts.wait_until_ready()


def test_an_up_goes_on_when_the_server_that_forwards_dies_meanwhile(
    platform: Checkout, hosts: Bed
) -> None:
    platform.put("models", {"sim-a": {"pool": "cpu", "replicas": {"min": 2, "max": 2}}})
    with platform.running("up") as up:
        until(lambda: forwarding_through(SERVERS["server-0"]))
        hosts.hosts.pop("server-0").end()
        assert up.stdout is not None
        said = up.stdout.read()
        up.wait()
        assert f'"{NAME}" is up in' in said, said
    must_complete(EDGE)
    hosts.start("server-0", same_disk=True)
    hosts.wait_until_ready()


def test_down_leaves_nothing(platform: Checkout) -> None:
    platform.slipway("unprotect")
    platform.slipway("down", "--yes")
    assert left_over(platform) == []


def left_over(checkout: Checkout) -> list[psutil.Process]:
    """The processes by which the laptop reaches the hosts."""
    place = str(Environment(name=NAME, checkout=checkout.folder, cache=Path()).scratch)
    return [process for process in psutil.process_iter() if _belongs(process, checkout, place)]


def _belongs(process: psutil.Process, checkout: Checkout, place: str) -> bool:
    try:
        if process.name() == "ssh-agent":
            backend = "PULUMI_BACKEND_URL"
            return process.environ().get(backend) == checkout.environ[backend]
        return any(place in part for part in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def forwarding_through(address: str) -> bool:
    return any(
        process.info["name"] == "ssh" and f"root@{address}" in process.info["cmdline"]
        for process in psutil.process_iter(["name", "cmdline"])
        if "-N" in (process.info["cmdline"] or ())
    )
