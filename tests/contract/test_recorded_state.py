"""A state that earlier registry-only plugins have written, under those of today.

They wrote some properties otherwise than the official plugins: "300s" for "5m0s", false and "" for
null, no defaults among the inputs. An environment that they made goes on without a change, but for
a job with `detach=False`, which is refused now: without it the job is updated and not restarted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agents import MANAGEMENT_TOKEN, Agent
from tests.contract.jobs import SECOND_NS, sleeper
from tests.contract.stack import Stack
from tests.waiting import until

pytestmark = [pytest.mark.binaries, pytest.mark.stand_in]

# What `pulumi stack export --show-secrets` printed after an `up` of PROGRAM with those plugins; its
# model had `detach=False` then. Addresses of agents are "<nomad>" and "<consul>".
RECORDED = Path(__file__).with_name("recorded_state.json")
POLICY = {
    "Name": "recorded-reader",
    "Rules": 'namespace "default" { policy = "read" }',
    "JobACL": {"Namespace": "default", "JobID": "recorded-plain"},
}
PROGRAM = """
import pulumi_command
import pulumi_consul
import pulumi_nomad
import pulumi_random

nomad = pulumi.ResourceOptions(
    provider=pulumi_nomad.Provider("nomad", address=nomad_address, secret_id=token)
)
consul = pulumi.ResourceOptions(
    provider=pulumi_consul.Provider("consul", address=consul_address, scheme="http", token=token)
)
pulumi_nomad.Job("plain", jobspec=plain, json=True, rerun_if_dead=rerun_if_dead, opts=nomad)
pulumi_nomad.Job(
    "model",
    jobspec=model,
    json=True,
    preserve_counts=True,
    purge_on_destroy=False,
    rerun_if_dead=rerun_if_dead,
    opts=nomad,
)
pulumi_nomad.AclPolicy(
    "policy",
    name="recorded-reader",
    rules_hcl='namespace "default" { policy = "read" }',
    job_acl=pulumi_nomad.AclPolicyJobAclArgs(job_id="recorded-plain"),
    opts=nomad,
)
pulumi_consul.Keys(
    "keys",
    keys=[pulumi_consul.KeysKeyArgs(path="recorded/key", value="1", delete=True)],
    opts=consul,
)
pulumi_random.RandomPassword("password", length=24, special=False)
pulumi_command.local.Command("command", create="echo done")
"""


def jobspec(job_id: str) -> str:
    """With a deadline that Go writes in minutes."""
    document: dict[str, Any] = json.loads(sleeper(job_id))
    update = document["Job"]["TaskGroups"][0]["Update"]
    update |= {"HealthyDeadline": 300 * SECOND_NS, "ProgressDeadline": 600 * SECOND_NS}
    return json.dumps(document, sort_keys=True)


def program(stack: Stack, nomad: Agent, consul: Agent, *, rerun_if_dead: bool | None) -> None:
    """What the recorded state was made from."""
    stack.program(
        PROGRAM,
        nomad_address=nomad.address,
        consul_address=consul.address.removeprefix("http://"),
        token=MANAGEMENT_TOKEN,
        plain=jobspec("recorded-plain"),
        model=jobspec("recorded-model"),
        rerun_if_dead=rerun_if_dead,
    )


@pytest.fixture
def recorded_stack(stack: Stack, nomad: Agent, consul: Agent) -> Iterator[Stack]:
    """The stack in its recorded state, and on both servers what it stands for."""
    nomad.call("POST", "/v1/acl/policy/recorded-reader", POLICY)
    consul.call("PUT", "/v1/kv/recorded/key", b"1")
    for spec in (jobspec("recorded-plain"), jobspec("recorded-model")):
        submission = {"Source": spec, "Format": "json"}
        nomad.call("POST", "/v1/jobs", json.loads(spec) | {"Submission": submission})
    until(lambda: len(allocations(nomad)) == 2, "both jobs' allocations")
    text = RECORDED.read_text().replace("<nomad>", nomad.address)
    given = stack.folder / "given.json"
    given.write_text(text.replace("<consul>", consul.address.removeprefix("http://")))
    imported = stack.run("stack", "import", "--stack=s", f"--file={given}")
    assert imported.returncode == 0, imported.stderr
    yield stack
    for job in ("recorded-plain", "recorded-model"):
        nomad.call("DELETE", f"/v1/job/{job}?purge=true")


@pytest.mark.parametrize("refresh", ["--refresh=false", "--refresh"])
def test_a_state_of_earlier_plugins_becomes_one_of_todays_and_restarts_nothing(
    refresh: str, recorded_stack: Stack, nomad: Agent, consul: Agent
) -> None:
    assert update_of_group(recorded_stack)["healthyDeadline"] == "300s"
    before = allocations(nomad)
    program(recorded_stack, nomad, consul, rerun_if_dead=None)
    applied = recorded_stack.up(refresh)
    assert applied.ok, applied.output
    assert applied.steps == [("update", "model")]
    assert allocations(nomad) == before
    assert recorded_stack.up(refresh, "--expect-no-changes").ok
    assert recorded_stack.state()["plain"]["inputs"]["deregisterOnDestroy"] is True
    if refresh == "--refresh":
        assert update_of_group(recorded_stack)["healthyDeadline"] == "5m0s"
    assert recorded_stack.destroy().ok


def test_turning_on_reruns_updates_the_jobs_in_place_and_restarts_nothing(
    recorded_stack: Stack, nomad: Agent, consul: Agent
) -> None:
    before = allocations(nomad)
    program(recorded_stack, nomad, consul, rerun_if_dead=True)
    applied = recorded_stack.up("--refresh")
    assert applied.ok, applied.output
    assert sorted(applied.steps) == [("update", "model"), ("update", "plain")]
    assert allocations(nomad) == before
    assert recorded_stack.up("--refresh", "--expect-no-changes").ok


def update_of_group(stack: Stack) -> dict[str, Any]:
    (update,) = stack.outputs("plain")["taskGroups"][0]["updateStrategies"]
    found: dict[str, Any] = update
    return found


def allocations(nomad: Agent) -> list[str]:
    jobs = ("recorded-plain", "recorded-model")
    found = [nomad.call("GET", f"/v1/job/{job}/allocations?all=true") for job in jobs]
    assert all(each["DesiredStatus"] == "run" for each in (*found[0], *found[1]))
    return [each["ID"] for each in (*found[0], *found[1])]
