"""Which replica and task `logs` shows, and how much of its output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve, Server
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan

JOB = "model-smollm2-3f9c1a"
TASKS = [
    {"Name": "weights", "Lifecycle": {"Hook": "prestart"}},
    {"Name": "server", "Lifecycle": None},
]
NEVER = "0001-01-01T00:00:00Z"  # as Nomad writes it

States = dict[str, dict[str, Any]]


def task(state: str, *, code: int | None = None, failed: bool = False) -> dict[str, Any]:
    """A task's state; one with an exit code has ended at least once."""
    events = [{"Type": "Received", "Time": 1, "DisplayMessage": "Task received by client"}]
    if code is not None:
        ended = {"Type": "Terminated", "Time": 2, "DisplayMessage": f"Exit Code: {code}"}
        events.append({**ended, "Details": {"exit_code": str(code)}})
    started = state == "running" or code is not None
    return {
        "State": state,
        "Failed": failed,
        "StartedAt": "2026-11-21T10:00:00Z" if started else NEVER,
        "Events": events,
    }


SERVES = {"weights": task("dead", code=0), "server": task("running")}
PREPARES = {"weights": task("running"), "server": task("pending")}
FAILED = {"weights": task("pending", code=2), "server": task("pending")}
PLACED = {"weights": task("pending"), "server": task("pending")}


def replica(number: int, allocation: str, states: States, **changes: Any) -> dict[str, Any]:
    return {
        "ID": allocation,
        "JobID": JOB,
        "Name": f"{JOB}.replica[{number}]",
        "NodeName": "cpu-0",
        "DesiredStatus": "run",
        "TaskGroup": "replica",
        "TaskStates": states,
        **changes,
    }


Platform = Callable[..., Server]


@pytest.fixture
def platform(checkout: Path, serve: Serve) -> Platform:
    """A Nomad with these replicas, oldest first; every log has three lines."""

    def start(*replicas: dict[str, Any]) -> Server:
        put_plan(checkout, plan_document())
        stubs = [{**each, "CreateIndex": at} for at, each in enumerate(replicas)]
        job = {"TaskGroups": [{"Name": "replica", "Tasks": TASKS}]}
        return serve(
            {
                f"GET /v1/job/{JOB}/allocations": (200, stubs),
                "GET /v1/job/nope/allocations": (200, []),
                "GET /v1/job/waiting/allocations": (200, []),
                "GET /v1/jobs": (200, [{"ID": id_, "Stop": False} for id_ in ("envoy", "waiting")]),
                **{
                    f"GET /v1/allocation/{each['ID']}": (200, {**each, "Job": job})
                    for each in replicas
                },
                **{
                    f"GET /v1/client/fs/logs/{each['ID']}": (200, b"one\ntwo\nthree\n")
                    for each in replicas
                },
            },
            address=f"{NETWORK}.2",
            port=4646,
        )

    return start


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (SERVES, "server"),
        (PREPARES, "weights"),
        (FAILED, "weights"),
        ({**FAILED, "weights": task("dead", code=2, failed=True)}, "weights"),
        ({**SERVES, "server": task("pending", code=1)}, "server"),
        ({**SERVES, "server": task("dead", code=0)}, "server"),
        ({"weights": task("running", code=2), "server": task("pending")}, "weights"),
    ],
    ids=[
        "the server runs",
        "the weights are prepared",
        "the weights failed and are tried again",
        "the weights failed and it was stopped",
        "the server failed after good weights",
        "all ended well",
        "the weights are tried again now",
    ],
)
def test_the_task_with_something_to_say_is_shown_and_named(
    runner: CliRunner, platform: Platform, states: States, shown: str
) -> None:
    server = platform(replica(0, "8d1e0c2a-77", states))
    result = runner.invoke(app, ["logs", "smollm2"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "one\ntwo\nthree\n"
    assert f"task={shown}&type=stdout" in server.asked[-1]
    assert f"{JOB}.replica[0] on cpu-0 (8d1e0c2a), task {shown}, " in result.stderr
    assert result.stderr.rstrip().endswith(": stdout")


def test_the_end_of_a_failed_task_is_shown(runner: CliRunner, platform: Platform) -> None:
    platform(replica(0, "8d1e", FAILED))
    result = runner.invoke(app, ["logs", "smollm2", "--stderr"])
    assert "task weights, pending (Exit Code: 2): stderr" in result.stderr


def test_the_newest_replica_that_should_run_is_shown(runner: CliRunner, platform: Platform) -> None:
    gone = replica(0, "33", FAILED, DesiredStatus="stop")
    server = platform(replica(0, "11", SERVES), replica(1, "22", SERVES), gone)
    runner.invoke(app, ["logs", "smollm2"])
    assert "/logs/22?" in server.asked[-1]


def test_a_replica_that_fails_comes_before_a_newer_one(
    runner: CliRunner, platform: Platform
) -> None:
    server = platform(replica(0, "11", FAILED), replica(1, "22", SERVES))
    runner.invoke(app, ["logs", "smollm2"])
    assert "/logs/11?" in server.asked[-1]


def test_a_replica_of_a_job_that_was_given_up_is_shown_when_there_is_no_other(
    runner: CliRunner, platform: Platform
) -> None:
    server = platform(replica(0, "11", FAILED, DesiredStatus="stop"))
    assert runner.invoke(app, ["logs", "smollm2"]).exit_code == 0
    assert "/logs/11?task=weights" in server.asked[-1]


@pytest.mark.parametrize(("asked_for", "shown"), [("0", "11"), ("1", "22"), ("33ab", "33abc")])
def test_a_replica_is_chosen_by_its_number_or_its_allocation(
    runner: CliRunner, platform: Platform, asked_for: str, shown: str
) -> None:
    left = replica(0, "33abc", SERVES, DesiredStatus="stop")
    server = platform(left, replica(0, "11", SERVES), replica(1, "22", SERVES))
    result = runner.invoke(app, ["logs", "smollm2", "--replica", asked_for])
    assert result.exit_code == 0, result.stderr
    assert f"/logs/{shown}?" in server.asked[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["smollm2", "--replica", "7"], 2, "use one of: 0, 1"),
        (["smollm2", "--task", "nope"], 2, "use one of: weights, server"),
        (["smollm2", "--lines", "0"], 2, "lines"),
        (["nope"], 2, "use one of: envoy, waiting"),
        (["waiting"], 1, "waits for a node"),
    ],
)
def test_an_unknown_job_task_or_replica_is_refused_with_the_known_ones(
    runner: CliRunner, platform: Platform, arguments: list[str], code: int, message: str
) -> None:
    platform(replica(0, "11", SERVES), replica(1, "22", SERVES))
    result = runner.invoke(app, ["logs", *arguments])
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr


@pytest.mark.parametrize("arguments", [[], ["--task", "server"]])
def test_a_task_that_has_not_started_says_so_instead_of_a_404(
    runner: CliRunner, platform: Platform, arguments: list[str]
) -> None:
    server = platform(replica(0, "11", PLACED))
    result = runner.invoke(app, ["logs", "smollm2", *arguments])
    assert result.exit_code == 1
    assert "it has not started, pending (Task received by client)" in result.stderr
    assert "404" not in result.stderr
    assert "/logs/" not in server.asked[-1]


def test_the_last_lines_alone_and_then_what_follows_them(
    runner: CliRunner, platform: Platform
) -> None:
    server = platform(replica(0, "11", SERVES))
    assert runner.invoke(app, ["logs", "smollm2", "-n", "2"]).stdout == "two\nthree\n"
    assert "follow=false" in server.asked[-1]
    runner.invoke(app, ["logs", "smollm2", "-n", "2", "-f"])
    assert "follow=true" in server.asked[-1]
    assert "offset=14" in server.asked[-1]


def test_the_last_line_may_be_unfinished(
    runner: CliRunner, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform(replica(0, "11", SERVES))
    parts = [b"one\ntw", b"o\nth", b"ree"]
    monkeypatch.setattr("cli.commands.logs.Nomad.log", lambda *_, **__: iter(parts))
    assert runner.invoke(app, ["logs", "smollm2", "-n", "1"]).stdout == "three"
    assert runner.invoke(app, ["logs", "smollm2", "-n", "9"]).stdout == "one\ntwo\nthree"
