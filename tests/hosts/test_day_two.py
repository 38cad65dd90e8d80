"""Days after the first: hosts are looked at, drained, examined and, once dead, forgotten."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import NAME, Checkout, environment, listed, streams
from tests.waiting import HANG_S

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/hosts.schema.json").read_text())
SERVERS = {f"server-{k}": f"{NETWORK}.1{1 + k}" for k in range(3)}
WORKERS = {f"worker-{k}": f"{NETWORK}.2{1 + k}" for k in range(2)}
EDGE = f"{NETWORK}.31"
HOSTS = {**SERVERS, **WORKERS, "edge-0": EDGE}
SETTINGS = {"servers": 3, "server_hosts": listed(SERVERS)}
PARTS = {"SSH", "host key", "architecture", "C library", "Python", "init", "clock", "disk"}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    """Three servers, of which one may die, and two workers: the work of one has room on the
    other."""
    return HOSTS


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Of an environment that is not up yet."""
    models = {"sim-a": {"min": 2, "max": 2}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        made.put_workers(**WORKERS)
        yield made


@pytest.fixture(scope="module")
def platform(checkout: Checkout) -> Checkout:
    """The environment, up."""
    checkout.slipway("up")
    return checkout


def rows(checkout: Checkout) -> dict[str, dict[str, Any]]:
    document = json.loads(checkout.slipway("hosts", "--json").stdout)
    jsonschema.validate(document, SCHEMA)
    return {row["name"]: row for row in document["hosts"]}


def checks(checkout: Checkout, host: str, *, code: int) -> dict[str, dict[str, str]]:
    done = checkout.slipway("doctor", "--host", host, "--json", check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)}


def test_a_bare_host_is_examined_and_left_as_it_was(checkout: Checkout, hosts: Bed) -> None:
    found = checks(checkout, "worker-0", code=0)
    assert set(found) == PARTS
    assert {check["state"] for check in found.values()} == {"ok"}
    hosts.hosts["worker-0"].ssh("test ! -e /opt/slipway")


def test_everything_that_a_host_lacks_is_named_at_once(checkout: Checkout, hosts: Bed) -> None:
    host = hosts.hosts["edge-0"]
    host.ssh("mv /usr/bin/python3 /usr/bin/python3.away && cp /usr/bin/date /usr/bin/date.real")
    host.ssh("printf '#!/bin/sh\\nexec date.real -d -1hour \"$@\"\\n' > /usr/bin/date")
    try:
        found = checks(checkout, "edge-0", code=1)
    finally:
        host.ssh("mv /usr/bin/python3.away /usr/bin/python3; mv /usr/bin/date.real /usr/bin/date")
    failed = {name for name, check in found.items() if check["state"] == "fail"}
    assert failed == {"Python", "clock"}
    assert re.search(r"36\d\d s behind", found["clock"]["detail"])
    assert all(found[name]["fix"] for name in failed)


def test_a_host_with_another_key_is_told_from_one_that_is_not_there(checkout: Checkout) -> None:
    known = checkout.folder / "known_hosts"
    before = known.read_text()
    lines = before.splitlines()
    other = next(line.split(" ", 1)[1] for line in lines if line.startswith("edge-0,"))
    known.write_text(
        "\n".join(
            f"{line.split()[0]} {other}" if line.startswith("worker-0,") else line for line in lines
        )
    )
    try:
        found = checks(checkout, "worker-0", code=1)
    finally:
        known.write_text(before)
    assert list(found) == ["host key"]
    assert "was reinstalled" in found["host key"]["fix"]


def test_a_host_that_the_file_does_not_name_is_refused_with_those_it_does(
    checkout: Checkout,
) -> None:
    refused = checkout.slipway("doctor", "--host", "worker-9", check=False)
    assert refused.returncode == 2
    assert "use one of: edge-0, server-0, server-1" in refused.stderr


def test_every_host_is_a_row_with_what_the_clusters_and_it_say(platform: Checkout) -> None:
    found = rows(platform)
    assert set(found) == set(HOSTS)
    for name, row in found.items():
        assert row["in_file"]
        assert row["consul"]["state"] == "alive", name
        assert row["nomad"]["state"] == ("alive" if row["role"] == "server" else "ready"), name
        assert row["takes_work"] == (None if row["role"] == "server" else "yes")
        assert row["planned_instead"] == {}
        assert row["consul"]["version"]
        assert row["certificate_ends"] > "2026"
        assert row["free_bytes"] > 0
        assert row["inactive_units"] == {}
        assert row["not_reached"] is None
    shown = platform.slipway("hosts").stdout
    assert len(shown.strip().splitlines()) == 2 + len(found), shown


def test_a_unit_that_does_not_run_is_named(platform: Checkout, hosts: Bed) -> None:
    watcher = f"slipway-{NAME}-log-collectors"
    hosts.hosts["worker-0"].ssh(f"systemctl stop {watcher}")
    try:
        assert rows(platform)["worker-0"]["inactive_units"] == {"log-collectors": "inactive"}
    finally:
        hosts.hosts["worker-0"].ssh(f"systemctl start {watcher}")


def test_the_log_of_an_agent_is_shown(platform: Checkout) -> None:
    assert "Nomad agent" in platform.slipway("logs", "worker-0", "nomad").stdout
    shown = platform.slipway("logs", "server-0", "workload-keys", "-n", "2").stdout
    assert 1 <= len(shown.splitlines()) <= 2
    refused = platform.slipway("logs", "server-0", "log-collectors", check=False)
    assert refused.returncode == 2
    assert "use one of: consul, nomad, workload-keys" in refused.stderr


def test_a_followed_log_shows_what_comes_and_ends_with_ctrl_c(
    platform: Checkout, hosts: Bed
) -> None:
    with platform.running(
        "logs", "worker-0", "consul", "-n", "1", "-f", errors=subprocess.PIPE
    ) as following:
        assert following.stdout is not None
        following.stdout.readline()
        hosts.hosts["worker-0"].ssh(f"systemctl reload slipway-{NAME}-consul")
        assert following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(HANG_S) in (0, 130)


def test_a_drained_host_loses_its_work_and_no_stream_fails(platform: Checkout) -> None:
    with streams(EDGE) as streamed:
        said = platform.slipway("drain", "worker-0").stderr
    assert len(streamed.answers) > 5
    assert streamed.failed == []
    assert "worker-0 has no work and gets none" in said
    assert rows(platform)["worker-0"]["takes_work"] == "no"
    assert "has no work" in platform.slipway("drain", "worker-0").stderr, "again is the same"


def test_an_up_leaves_a_drained_host_drained(platform: Checkout) -> None:
    platform.slipway("up")
    assert platform.changed() == set()
    assert rows(platform)["worker-0"]["takes_work"] == "no"


def test_a_returned_host_takes_work_again(platform: Checkout) -> None:
    platform.slipway("return", "worker-0")
    assert rows(platform)["worker-0"]["takes_work"] == "yes"
    assert "takes work already" in platform.slipway("return", "worker-0").stderr


def test_ctrl_c_ends_the_waiting_and_not_the_drain(platform: Checkout) -> None:
    with long_stream(), platform.running("drain", "worker-1", errors=subprocess.PIPE) as waiting:
        assert waiting.stderr is not None
        said = [next(waiting.stderr), next(waiting.stderr)]
        assert "still run" in said[1], said
        waiting.send_signal(signal.SIGINT)
        rest = waiting.stderr.read()
        assert waiting.wait() == 130, rest
        assert "worker-1 goes on draining" in rest
        assert f"slipway return worker-1 -s {NAME}" in rest
        assert rows(platform)["worker-1"]["takes_work"] in ("draining", "no")
    platform.slipway("return", "worker-1")
    assert rows(platform)["worker-1"]["takes_work"] == "yes"


@contextmanager
def long_stream() -> Iterator[None]:
    """A generation of a few seconds on every replica: none can end meanwhile."""
    body = {"model": "sim-a", "prompt": "hi", "max_tokens": 900, "stream": True}
    url = f"http://{EDGE}:8080/v1/completions"

    def ask() -> None:
        httpx.post(url, json=body, timeout=120)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    try:
        yield
    finally:
        for each in asking:
            each.join()


def test_a_server_has_nothing_to_drain_and_an_unknown_host_is_refused(platform: Checkout) -> None:
    refused = platform.slipway("drain", "server-0", check=False)
    assert refused.returncode == 2
    assert "no replica runs there" in refused.stderr
    refused = platform.slipway("drain", "nowhere", check=False)
    assert refused.returncode == 2
    assert "use one of: edge-0, server-0, server-1, server-2, worker-0, worker-1" in refused.stderr


def test_a_host_that_lives_is_not_forgotten(platform: Checkout) -> None:
    asked_for = platform.slipway("forget", "worker-1", check=False)
    assert asked_for.returncode == 2
    assert f"Pulumi.{NAME}.yaml still names worker-1" in asked_for.stderr
    refused = platform.slipway("forget", "worker-1", "--yes", check=False)
    assert refused.returncode == 2
    assert "still answers over SSH" in refused.stderr
    assert rows(platform)["worker-1"]["nomad"]["state"] == "ready"


def test_a_dead_worker_is_named_with_the_fix_by_every_command_that_looks(
    platform: Checkout, hosts: Bed
) -> None:
    hosts.hosts.pop("worker-1").end()
    until_it_is("failed", "down", platform=platform, host="worker-1")
    fix = f"slipway forget worker-1 -s {NAME} --yes"
    must_name(platform, "worker-1", "is down", fix)


def test_a_worker_that_has_not_joined_is_named_with_the_fix_too(platform: Checkout) -> None:
    (node,) = (
        each
        for each in platform.ask(f"https://{SERVERS['server-1']}:4646/v1/nodes")
        if each["Name"] == "worker-1"
    )
    platform.put_to(f"https://{SERVERS['server-1']}:4646/v1/node/{node['ID']}/purge")
    platform.put_to(f"https://{SERVERS['server-1']}:8501/v1/agent/force-leave/worker-1?prune")
    until_it_is("not joined", "not joined", platform=platform, host="worker-1")
    must_name(platform, "worker-1", "has not joined", f"slipway admit worker-1 -s {NAME}")


def until_it_is(consul: str, nomad: str, *, platform: Checkout, host: str) -> None:
    for attempt in Retrying(
        stop=stop_after_delay(400),  # a new leader of Nomad waits five minutes for its nodes
        wait=wait_fixed(5),
        retry=retry_if_exception_type(AssertionError),
        reraise=True,
    ):
        with attempt:
            assert states(platform, host) == [consul, nomad]


def must_name(platform: Checkout, host: str, what: str, fix: str) -> None:
    """`hosts` and `status` answer, `up` changes nothing and fails; each names the one host."""
    for command, code in (("hosts", 0), ("status", 0), ("up", 1)):
        done = platform.slipway(command, "--json", check=False)
        assert done.returncode == code, done.stdout + done.stderr
        (trouble,) = json.loads(done.stdout)["troubles"]
        assert trouble["host"] == host
        assert what in trouble["what"]
        assert fix in trouble["fix"]
        if command == "up":
            assert platform.changed() == set()
            assert f"{host} {what}" in "".join(done.stderr.splitlines()[-2:]), "as the last block"
            return
        shown = " ".join(platform.slipway(command).stdout.split())
        assert f"{host} {what}" in shown
        assert fix in shown


def test_a_dead_host_is_forgotten_and_the_platform_goes_on_without_it(
    platform: Checkout,
) -> None:
    found = rows(platform)
    assert "cannot be reached over SSH" in found["worker-1"]["not_reached"]["reason"]
    assert found["worker-0"]["not_reached"] is None
    said = forget(platform, "worker-1")
    for resource in ("node-worker-1", "delivery-worker-1"):
        assert f"no longer in the state: {resource}" in said
    assert states(platform, "worker-1") == ["not joined"] * 2
    platform.put_workers(worker_0=WORKERS["worker-0"])
    platform.slipway("up")
    assert platform.changed() == {
        "admission-worker-1",
        "certificate-host-worker-1",
        "pool-cpu-ready",
    }
    tokens = platform.ask(f"https://{SERVERS['server-0']}:8501/v1/acl/tokens")
    bound = [each["NodeName"] for token in tokens for each in token.get("NodeIdentities") or []]
    assert "worker-0" in bound
    assert "worker-1" not in bound
    assert set(rows(platform)) == set(HOSTS) - {"worker-1"}
    refused = platform.slipway("forget", "worker-1", "--yes", check=False)
    assert "use one of: edge-0, server-0, server-1, server-2, worker-0" in refused.stderr
    answer = httpx.post(
        f"http://{EDGE}:8080/v1/completions",
        json={"model": "sim-a", "prompt": "hi", "max_tokens": 4},
        timeout=HANG_S,
    )
    assert answer.is_success, "the other worker has both replicas"


def forget(platform: Checkout, host: str) -> str:
    """Forgets a host as soon as the clusters have noticed its death."""
    for attempt in Retrying(
        stop=stop_after_delay(180),
        wait=wait_fixed(5),
        retry=retry_if_exception_type(AssertionError),
        reraise=True,
    ):
        with attempt:
            said = platform.slipway("forget", host, "--yes").stderr
    return said


def states(platform: Checkout, host: str) -> list[str]:
    """In Consul and in Nomad."""
    row = rows(platform)[host]
    return [row[cluster]["state"] for cluster in ("consul", "nomad")]


def test_a_new_machine_takes_the_place_of_a_dead_one(platform: Checkout, hosts: Bed) -> None:
    hosts.start("worker-1")  # with an empty disk
    hosts.wait_until_ready()
    platform.put_workers(**WORKERS)
    assert {check["state"] for check in checks(platform, "worker-1", code=0).values()} == {"ok"}
    platform.slipway("up")
    assert rows(platform)["worker-1"]["takes_work"] == "yes"
    platform.slipway("drain", "worker-0")
    platform.slipway("return", "worker-0")


def test_a_dead_server_is_forgotten_while_the_others_can_elect_a_leader(
    platform: Checkout, hosts: Bed
) -> None:
    hosts.hosts.pop("server-0").end()  # the first, which every address of the plan names
    assert rows(platform)["worker-0"]["takes_work"] == "yes", "another server is asked"
    said = forget(platform, "server-0")
    for resource in ("consul-server-0", "nomad-server-0", "delivery-server-0"):
        assert f"no longer in the state: {resource}" in said
    assert states(platform, "server-0") == ["not joined"] * 2


def test_a_new_server_takes_the_place_of_a_dead_one(platform: Checkout, hosts: Bed) -> None:
    hosts.start("server-0")
    hosts.wait_until_ready()
    platform.slipway("up")
    assert states(platform, "server-0") == ["alive"] * 2
    assert rows(platform)["server-0"]["inactive_units"] == {}


def test_without_any_server_the_hosts_still_say_what_they_have(
    platform: Checkout, hosts: Bed
) -> None:
    for name in SERVERS:
        hosts.hosts.pop(name).end()
    try:
        document = json.loads(platform.slipway("hosts", "--json").stdout)
        jsonschema.validate(document, SCHEMA)
        found = {row["name"]: row for row in document["hosts"]}
        assert set(document["unreachable"]) == {"consul", "nomad"}
        assert found["server-0"]["not_reached"]
        assert found["worker-0"]["inactive_units"] == {}
        refused = platform.slipway("forget", "server-0", "--yes", check=False)
        assert refused.returncode == 1
        assert "the state is as it was" in refused.stderr
    finally:
        for name in SERVERS:
            hosts.start(name, same_disk=True)
        hosts.wait_until_ready()
