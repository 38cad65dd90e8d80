"""An exported stack, changed so that the next update does what the files say."""

from __future__ import annotations

import json

from cli.pulumi.repairs import with_jobs_kept


def test_a_job_taken_back_is_kept_and_its_gate_runs_again() -> None:
    urn = "urn:pulumi:dev::slipway::slipway:index:ModelService$"
    job = {"type": "nomad:index/job:Job", "urn": f"{urn}nomad:index/job:Job::model-a"}
    gate = {"type": "command:local:Command", "urn": f"{urn}command:local:Command::model-a-ready"}
    other = {**gate, "urn": f"{urn}command:local:Command::model-b-ready"}
    old = {**job, "id": "model-a-000000", "delete": True}
    older = {**job, "id": "model-a-111111", "delete": True}
    new = {**job, "id": "model-a-222222"}
    stack = {"deployment": {"resources": [new, gate, other, old, older]}}
    repaired = json.loads(with_jobs_kept(json.dumps(stack), {"model-a-000000"}))
    kept = {**old, "retainOnDelete": True}
    assert repaired["deployment"]["resources"] == [new, {**gate, "taint": True}, other, kept, older]


def test_a_mark_of_a_job_that_another_entry_owns_deletes_nothing() -> None:
    owner = {"type": "nomad:index/job:Job", "urn": "u::model-a", "id": "model-a-000000"}
    mark = {**owner, "delete": True}
    stack = {"deployment": {"resources": [owner, mark]}}
    repaired = json.loads(with_jobs_kept(json.dumps(stack), ()))
    assert repaired["deployment"]["resources"] == [owner, {**mark, "retainOnDelete": True}]


def test_the_gate_of_the_routes_runs_again_as_long_as_a_job_is_to_go() -> None:
    command = "urn:pulumi:dev::slipway::slipway:index:Platform$command:local:Command::"
    gate = {"type": "command:local:Command", "urn": f"{command}routes-acknowledged"}
    old = {"type": "nomad:index/job:Job", "urn": "u::model-a", "id": "model-a-0", "delete": True}
    stack = {"deployment": {"resources": [gate, old]}}
    repaired = json.loads(with_jobs_kept(json.dumps(stack), ()))
    assert repaired["deployment"]["resources"] == [{**gate, "taint": True}, old]


def test_a_stack_without_jobs_to_delete_stays_as_it_is() -> None:
    gate = {"type": "command:local:Command", "urn": "u::routes-acknowledged"}
    exported = json.dumps({"deployment": {"resources": [gate]}})
    assert with_jobs_kept(exported, ()) == exported
    new = json.dumps({"deployment": {}})
    assert with_jobs_kept(new, ()) == new
