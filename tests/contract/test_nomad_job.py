"""nomad.Job through the official SDK, the real CLI and a real Nomad with ACLs."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.agents import MANAGEMENT_TOKEN, Agent
from tests.contract.jobs import sleeper
from tests.contract.stack import Stack
from tests.waiting import HANG_S

pytestmark = pytest.mark.binaries

PROGRAM = """
import pulumi_nomad
provider = pulumi_nomad.Provider("nomad", address=address, secret_id=token)
pulumi_nomad.Job(
    "job",
    jobspec=jobspec,
    json=True,
    preserve_counts=True,
    purge_on_destroy=True,
    rerun_if_dead=rerun_if_dead,
    opts=pulumi.ResourceOptions(provider=provider, import_=import_id),
)
"""
UNREACHABLE = "http://127.91.0.9:4646"
# What the official plugin records of such a job; the rest differs from run to run.
CONSTANT_OUTPUTS = {
    "allocationIds": [],
    "constraints": [],
    "datacenters": ["*"],
    "deploymentId": None,
    "deploymentStatus": None,
    "deregisterOnDestroy": True,
    "deregisterOnIdChange": True,
    "detach": True,
    "json": True,
    "name": "drift",
    "namespace": "default",
    "periodicConfigs": [],
    "policyOverride": None,
    "preserveCounts": True,
    "priority": 50,
    "purgeOnDestroy": True,
    "readAllocationIds": False,
    "region": "global",
    "rerunIfDead": False,
    "stop": False,
    "type": "service",
}


@pytest.fixture
def deploy(nomad: Agent) -> Callable[..., None]:
    """Writes the program for a jobspec into a stack."""

    def write(stack: Stack, jobspec: str, **values: Any) -> None:
        access = {"address": nomad.address, "token": MANAGEMENT_TOKEN}
        settings = {"import_id": None, "rerun_if_dead": None, **values}
        stack.program(PROGRAM, jobspec=jobspec, **access, **settings)

    return write


@pytest.fixture(autouse=True)
def no_jobs_are_left(nomad: Agent) -> Iterator[None]:
    """Purge what a failed test has left, so that the next one starts alone."""
    yield
    for job in nomad.call("GET", "/v1/jobs"):
        nomad.call("DELETE", f"/v1/job/{job['ID']}?purge=true")


def _count(nomad: Agent, job_id: str) -> int:
    count: int = nomad.call("GET", f"/v1/job/{job_id}")["TaskGroups"][0]["Count"]
    return count


def _constant(outputs: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(outputs["modifyIndex"], str)
    assert isinstance(outputs["submitTime"], str)
    assert outputs["taskGroups"][0]["tasks"][0]["driver"] == "raw_exec"
    return {name: outputs.get(name) for name in CONSTANT_OUTPUTS}


def _scale(nomad: Agent, job_id: str, count: int) -> None:
    body = {"Count": count, "Target": {"Group": "main"}, "Message": "by a test"}
    nomad.call("POST", f"/v1/job/{job_id}/scale", body)


def _stop(nomad: Agent, job_id: str) -> None:
    nomad.call("DELETE", f"/v1/job/{job_id}?purge=false")
    _wait_for_status(nomad, job_id, "dead")


def _stand_down(nomad: Agent, job_id: str) -> None:
    """As ModelJob.reduce_to(0) of services/operator/gates/model_job.py does."""
    job = nomad.call("GET", f"/v1/job/{job_id}")
    (group,) = job["TaskGroups"]
    off = {**group["Scaling"], "Enabled": False, "Min": 0, "Policy": {"slipway_before": "{}"}}
    reduced = {**job, "TaskGroups": [{**group, "Count": 0, "Scaling": off}]}
    nomad.call("POST", "/v1/jobs", {"Job": reduced})
    _wait_for_status(nomad, job_id, "dead")


def _wait_for_status(nomad: Agent, job_id: str, status: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + HANG_S
    while True:
        job: dict[str, Any] = nomad.call("GET", f"/v1/job/{job_id}")
        if job["Status"] == status:
            return job
        assert time.monotonic() < deadline_s, f"job {job_id} is {job['Status']}, not {status}"
        # Returns at the next change of the job.
        nomad.call("GET", f"/v1/job/{job_id}?index={job['ModifyIndex']}&wait=5s")


def test_a_job_lives_with_an_autoscaler_from_creation_to_purge(
    stack: Stack, nomad: Agent, deploy: Callable[..., None]
) -> None:
    deploy(stack, sleeper("life"))
    created = stack.up()
    assert created.ok, created.output
    assert created.steps == [("create", "job")]
    assert stack.state()["job"]["id"] == "life"

    _scale(nomad, "life", 3)
    assert stack.up().steps == []  # an unchanged spec leaves the count alone

    deploy(stack, sleeper("life", cpu_mhz=25))
    blind = stack.up()
    assert not blind.ok
    assert "job modify index has changed since last refresh" in blind.text
    assert _count(nomad, "life") == 3

    seeing = stack.up("--refresh")
    assert seeing.ok, seeing.output
    assert seeing.steps == [("update", "job")]
    assert _count(nomad, "life") == 3

    deploy(stack, sleeper("life-2", cpu_mhz=25))
    replaced = stack.up()
    assert [operation for operation, _ in replaced.steps] == [
        "create-replacement",
        "replace",
        "delete-replaced",
    ]
    assert nomad.status("/v1/job/life") == 404
    assert nomad.status("/v1/job/life-2") == 200

    assert stack.destroy().ok
    assert nomad.status("/v1/job/life-2") == 404
    assert stack.files_with(MANAGEMENT_TOKEN) == []


def test_a_job_made_outside_is_taken_over_and_what_happens_outside_is_seen_by_a_refresh(
    stack: Stack, nomad: Agent, deploy: Callable[..., None]
) -> None:
    spec = sleeper("drift")
    submission = {"Source": spec, "Format": "json"}
    nomad.call("POST", "/v1/jobs", json.loads(spec) | {"Submission": submission})
    deploy(stack, spec)
    taken_over = stack.up()
    assert taken_over.steps == [("create", "job")], taken_over.output
    # Nomad has the same spec and restarts nothing.
    assert len(nomad.call("GET", "/v1/job/drift/allocations?all=true")) == 1
    assert _constant(stack.outputs("job")) == CONSTANT_OUTPUTS
    (group,) = stack.outputs("job")["taskGroups"]
    assert group["volumes"] is None
    assert group["updateStrategies"][0]["healthyDeadline"] == "3s"
    _scale(nomad, "drift", 2)
    assert stack.up("--refresh", "--expect-no-changes").ok

    submission = {"Source": sleeper("drift", cpu_mhz=30), "Format": "json"}
    foreign = json.loads(str(submission["Source"])) | {"Submission": submission}
    nomad.call("POST", "/v1/jobs", foreign)
    assert stack.up("--refresh").steps == [("update", "job")]  # somebody else's spec is undone

    nomad.call("DELETE", "/v1/job/drift?purge=true")
    assert stack.up("--refresh").steps == [("create", "job")]
    assert nomad.status("/v1/job/drift") == 200


def test_a_job_left_to_its_defaults_is_recorded_as_the_official_plugin_does(
    stack: Stack, nomad: Agent
) -> None:
    stack.program(
        """
        import pulumi_nomad
        pulumi_nomad.Job("job", jobspec=jobspec, json=True)
        """,
        jobspec=sleeper("defaults"),
    )
    stack.variables = {"NOMAD_ADDR": nomad.address, "NOMAD_TOKEN": MANAGEMENT_TOKEN}
    assert stack.up().ok
    assert stack.state()["job"]["inputs"] == {
        "deregisterOnDestroy": True,
        "deregisterOnIdChange": True,
        "detach": True,
        "jobspec": sleeper("defaults"),
        "json": True,
    }
    nulls = {"deploymentId", "deploymentStatus", "policyOverride", "purgeOnDestroy"}
    outputs = stack.outputs("job")
    assert {name for name, value in outputs.items() if value is None} == nulls
    assert stack.up("--refresh", "--expect-no-changes").ok
    assert {name for name, value in stack.outputs("job").items() if value is None} == nulls


def test_a_job_stopped_outside_is_drift_only_where_it_is_to_run_again(
    stack: Stack, nomad: Agent, deploy: Callable[..., None]
) -> None:
    deploy(stack, sleeper("stopped"))
    assert stack.up().ok
    _stop(nomad, "stopped")
    assert stack.up("--refresh", "--expect-no-changes").ok
    assert nomad.call("GET", "/v1/job/stopped")["Stop"]

    deploy(stack, sleeper("stopped"), rerun_if_dead=True)
    mended = stack.up("--refresh")
    assert mended.ok, mended.output
    assert mended.steps == [("update", "job")]
    assert _wait_for_status(nomad, "stopped", "running")["Stop"] is False
    assert stack.up("--refresh", "--expect-no-changes").ok

    _stop(nomad, "stopped")
    assert stack.up().steps == []  # without a refresh nothing is seen
    assert stack.up("--refresh").steps == [("update", "job")]
    _wait_for_status(nomad, "stopped", "running")
    assert stack.up("--refresh", "--expect-no-changes").ok


def test_a_job_stood_down_by_its_gate_is_registered_again_and_then_is_not_drift(
    stack: Stack, nomad: Agent, deploy: Callable[..., None]
) -> None:
    """Nomad calls a job without allocations dead. The gate of a change that failed has left it so
    (services/operator/model_ready.py), and the gate of the next `up` gives it its count."""
    deploy(stack, sleeper("stood-down"), rerun_if_dead=True)
    assert stack.up().ok
    _stand_down(nomad, "stood-down")
    again = stack.up("--refresh")
    assert again.ok, again.output
    assert again.steps == [("update", "job")]
    group = nomad.call("GET", "/v1/job/stood-down")["TaskGroups"][0]
    assert group["Count"] == 0  # the update alone starts no replica
    assert (group["Scaling"]["Enabled"], group["Scaling"]["Min"]) == (True, 1)

    _scale(nomad, "stood-down", 1)
    _wait_for_status(nomad, "stood-down", "running")
    assert stack.up("--refresh", "--expect-no-changes").ok


@pytest.mark.stand_in
def test_a_job_is_not_imported_and_the_error_says_what_to_do(
    stack: Stack, nomad: Agent, deploy: Callable[..., None]
) -> None:
    nomad.call("POST", "/v1/jobs", json.loads(sleeper("outside")))
    deploy(stack, sleeper("outside"), import_id="outside@default")
    refused = stack.up()
    assert not refused.ok
    assert "cannot be imported: leave out `import_`" in refused.text
    assert stack.state() == {}

    deploy(stack, sleeper("outside"))
    assert stack.up().steps == [("create", "job")]
    assert len(nomad.call("GET", "/v1/job/outside/allocations?all=true")) == 1


def test_an_unreachable_nomad_loses_nothing(stack: Stack, nomad: Agent) -> None:
    stack.program(
        """
        import pulumi_nomad
        pulumi_nomad.Job("job", jobspec=jobspec, json=True, purge_on_destroy=True)
        """,
        jobspec=sleeper("unreachable"),
    )
    reachable = {"NOMAD_ADDR": nomad.address, "NOMAD_TOKEN": MANAGEMENT_TOKEN}
    unreachable = {**reachable, "NOMAD_ADDR": UNREACHABLE}

    stack.variables = unreachable
    assert stack.preview().steps == [("create", "job")]
    stack.variables = reachable
    assert stack.up().ok
    stack.variables = unreachable
    assert stack.preview("--expect-no-changes").ok
    for failed, complaint in (
        (stack.refresh(), "error checking for job"),
        (stack.destroy(), "error deregistering job"),
    ):
        assert not failed.ok
        assert complaint in failed.text
        assert "connection refused" in failed.text
        assert "job" in stack.state()
