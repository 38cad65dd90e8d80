"""The typed subset of Nomad's job API."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.nomad.jobspec import (
    ENDS_WITH_ITS_EXECUTOR,
    LEFT_DELIMITER,
    RIGHT_DELIMITER,
    CheckRestart,
    File,
    Group,
    HttpCheck,
    Job,
    Restart,
    Scaling,
    ScriptCheck,
    Service,
    Task,
    to_json,
)

SECOND_NS = 1_000_000_000
TASK = Task(name="server", command="/bin/true", args=("-v",), cpu_mhz=100, memory_mb=64)
GROUP = Group(name="main", count=1, ports={}, tasks=(TASK,))
JOB = Job(id="job", datacenter="dev", node_pool="cpu", group=GROUP)

durations_s = st.floats(min_value=0.001, max_value=86_400)
texts = st.text(max_size=8)
restarts = st.builds(CheckRestart, after_failures=st.integers(1, 3), grace_s=durations_s)
labels = st.text("abcdefgh", min_size=1, max_size=4)
ports = st.dictionaries(labels, st.none() | st.integers(1, 65535), max_size=4)


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a document with its value, at any depth."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key, part
            yield from pairs(part)
    elif isinstance(value, list):
        for part in value:
            yield from pairs(part)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Jobs of every form the subset has."""
    labelled = draw(ports)
    checks = tuple(
        HttpCheck(
            path="/health",
            port=port,
            interval_s=draw(durations_s),
            restart=draw(st.none() | restarts),
        )
        for port in labelled
    )
    task = Task(
        name=draw(labels),
        command="/bin/true",
        args=tuple(draw(st.lists(texts, max_size=2))),
        cpu_mhz=draw(st.integers(1, 10_000)),
        memory_mb=draw(st.integers(10, 10_000)),
        env=draw(st.dictionaries(labels, texts, max_size=2)),
        files=tuple(File(path=f"local/{name}", content="") for name in draw(st.sets(labels))),
        runs_before_the_others=draw(st.booleans()),
        kill_timeout_s=draw(durations_s),
        consul_identity=draw(st.booleans()),
        nomad_identity=draw(st.booleans()),
    )
    group = Group(
        name=draw(labels),
        count=draw(st.integers(1, 20)),
        ports=labelled,
        tasks=(task,),
        services=tuple(
            Service(name=check.port, port=check.port, checks=(check,)) for check in checks
        ),
        shutdown_delay_s=draw(st.just(0) | durations_s),
        scaling=draw(st.none() | st.just(Scaling(min_count=1, max_count=2, policy={"check": []}))),
    )
    return dataclasses.replace(JOB, group=group, meta=draw(st.dictionaries(labels, texts)))


@given(job=jobs())
def test_a_document_is_stable_and_follows_nomads_rules(job: Job) -> None:
    assert_stable_sorted_compact_json(job)
    assert_only_empty_what_means_something_when_empty(job)
    assert_durations_are_whole_nanoseconds(job)
    assert_every_port_is_either_reserved_or_dynamic(job)


def assert_stable_sorted_compact_json(job: Job) -> None:
    text = to_json(job)
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert text == to_json(job)


def assert_only_empty_what_means_something_when_empty(job: Job) -> None:
    """An empty list comes back from Nomad as null, which would be a change for ever."""
    empty = {key for key, value in pairs(job.render()) if value in ([], {}, None)}
    # An argument list and what a policy says inside are passed on untouched by Nomad.
    assert empty <= {"Consul", "args", "check"}


def assert_durations_are_whole_nanoseconds(job: Job) -> None:
    timed = {
        "Delay",
        "Grace",
        "Interval",
        "KillTimeout",
        "ProgressDeadline",
        "ShutdownDelay",
        "Timeout",
    }
    found = [(key, value) for key, value in pairs(job.render()) if key in timed]
    assert {key for key, _ in found} >= {"Delay", "Interval", "KillTimeout", "ProgressDeadline"}
    for key, value in found:
        assert type(value) is int, key
        assert value >= SECOND_NS // 1000, f"{key} of {value} ns was taken for seconds"


def assert_every_port_is_either_reserved_or_dynamic(job: Job) -> None:
    networks = job.render()["Job"]["TaskGroups"][0].get("Networks", [{}])
    reserved = {port["Label"]: port["Value"] for port in networks[0].get("ReservedPorts", [])}
    dynamic = {port["Label"] for port in networks[0].get("DynamicPorts", [])}
    assert not dynamic & reserved.keys()
    assert reserved | dict.fromkeys(dynamic) == job.group.ports


@given(first=ports)
def test_the_order_of_ports_does_not_matter(first: dict[str, int | None]) -> None:
    def rendered(given_ports: dict[str, int | None]) -> dict[str, Any]:
        return dataclasses.replace(GROUP, ports=given_ports).render()

    assert rendered(first) == rendered(dict(reversed(first.items())))


@pytest.mark.parametrize(("seconds", "nanoseconds"), [(10, 10 * SECOND_NS), (0.5, SECOND_NS // 2)])
def test_seconds_become_nanoseconds(seconds: float, nanoseconds: int) -> None:
    task = dataclasses.replace(TASK, kill_timeout_s=seconds)
    assert task.render()["KillTimeout"] == nanoseconds


def test_a_tasks_consul_identity_is_an_empty_block_that_stays() -> None:
    assert dataclasses.replace(TASK, consul_identity=True).render()["Consul"] == {}
    assert "Consul" not in TASK.render()


def test_a_tasks_nomad_identity_reaches_its_environment() -> None:
    rendered = dataclasses.replace(TASK, nomad_identity=True).render()
    assert rendered["Identity"] == {"Env": True, "File": True}
    assert "Identity" not in TASK.render()


def test_a_file_reaches_the_task_as_it_is() -> None:
    content = "{{ .Labels.model }} ${NOMAD_PORT_http} {% x %}"
    rendered = File(path="local/rules.yml", content=content).render()
    assert rendered["EmbeddedTmpl"] == content
    assert rendered["LeftDelim"] == LEFT_DELIMITER
    assert rendered["RightDelim"] == RIGHT_DELIMITER
    assert LEFT_DELIMITER not in content


def test_a_file_is_for_its_owner_only_and_never_signals_the_task() -> None:
    rendered = File(path="local/a", content="").render()
    assert rendered["Perms"] == "0600"
    assert rendered["ChangeMode"] == "noop"


def test_a_task_is_asked_to_end_by_sigterm() -> None:
    assert TASK.render()["KillSignal"] == "SIGTERM"


def test_the_kernel_ends_a_task_with_its_executor() -> None:
    config = TASK.render()["Config"]
    command = [config["command"], *config["args"]]
    assert command == [*ENDS_WITH_ITS_EXECUTOR, TASK.command, *TASK.args]
    assert ENDS_WITH_ITS_EXECUTOR == ("setpriv", "--pdeathsig", "KILL")


def test_only_a_task_that_comes_first_has_a_lifecycle() -> None:
    before = dataclasses.replace(TASK, runs_before_the_others=True)
    assert before.render()["Lifecycle"] == {"Hook": "prestart", "Sidecar": False}
    assert "Lifecycle" not in TASK.render()


def test_a_check_restarts_only_when_told_to() -> None:
    quiet = HttpCheck(path="/", port="http")
    restart = CheckRestart(after_failures=3, grace_s=60)
    strict = dataclasses.replace(quiet, restart=restart)
    assert "CheckRestart" not in quiet.render()
    assert strict.render()["CheckRestart"] == {"Limit": 3, "Grace": 60 * SECOND_NS}
    script = ScriptCheck(
        name="probe", task="server", command="/bin/true", args=("-v",), interval_s=5, timeout_s=10
    )
    assert "CheckRestart" not in script.render()
    assert dataclasses.replace(script, restart=restart).render()["CheckRestart"]["Limit"] == 3


def test_a_service_registers_the_nodes_own_address() -> None:
    rendered = Service(name="web", port="http").render()
    assert rendered["Address"] == "${meta.address}"
    assert rendered["Provider"] == "consul"


def test_a_task_that_crashes_all_the_time_is_never_given_up() -> None:
    restart = Restart()
    assert restart.render()["Mode"] == "delay"
    assert restart.attempts * restart.delay_s >= restart.interval_s, "it would be parked"
    assert GROUP.render()["ReschedulePolicy"]["Unlimited"] is True


def test_a_job_has_no_deployments_that_would_block_scaling() -> None:
    update = JOB.render()["Job"]["Update"]
    assert update == {"MaxParallel": 0, "ProgressDeadline": 600 * SECOND_NS}


def test_the_envelope_is_in_the_group_and_without_one_there_is_no_scaling() -> None:
    policy = {"cooldown": "60s"}
    scaling = Scaling(min_count=2, max_count=4, policy=policy)
    rendered = dataclasses.replace(GROUP, scaling=scaling).render()
    assert rendered["Scaling"] == {
        "Type": "horizontal",
        "Enabled": True,
        "Min": 2,
        "Max": 4,
        "Policy": policy,
    }
    assert "Scaling" not in GROUP.render()
