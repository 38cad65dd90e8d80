"""What is read from both kinds of previews, before anything is rendered."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.diff.change import PreviewFormatError, Stamp
from slipway.diff.digest import failed_preview, planned_resources, read_digest
from slipway.diff.document import diff_document
from slipway.diff.domain import summary
from slipway.diff.effects import JOB
from slipway.diff.offline import compare
from slipway.diff.policies import read_policy_report
from slipway.diff.verdict import notable, verdict_of
from tests.unit.diff.digests import (
    PLATFORM,
    POOL,
    RECORDED,
    digest,
    gpu_pool_replaced,
    model_facts,
    policy_report,
    pool_facts,
    recorded,
    step,
)
from tests.unit.diff.official import as_official

WITH_BRIDGED_RESOURCES = [
    name for name in RECORDED if as_official(recorded(name)) != recorded(name)
]
VOLUME = f"{POOL}$aws:ebs/volume:Volume"


def rows(document: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (row.what, row.subject): (row.before, row.after) for row in summary(read_digest(document))
    }


def test_the_three_steps_of_a_replace_are_one_change() -> None:
    preview = read_digest(gpu_pool_replaced())
    replaced = [change for change in preview.changes if change.op == "replace"]
    assert [change.name for change in replaced] == ["pool-h100"]
    assert replaced[0].cause == ("subnetId",)
    assert replaced[0].accelerator == "H100-80"


def test_a_delete_of_what_an_earlier_replace_left_is_a_delete() -> None:
    preview = read_digest(digest(step("delete-replaced", VOLUME, "data", {"volumeSize": 1})))
    assert [(change.op, change.name) for change in preview.changes] == [("delete", "data")]


def test_a_refresh_before_a_change_does_not_alter_what_is_reported() -> None:
    document = recorded("model_changed")
    steps = [
        {**step, "op": "refresh", "newState": step["oldState"], "detailedDiff": None}
        for step in document["steps"]
        if step.get("oldState")
    ]
    refreshed = {**document, "steps": steps + document["steps"]}
    assert read_digest(refreshed) == read_digest(document)
    assert planned_resources(refreshed) == planned_resources(document)


@pytest.mark.parametrize("name", WITH_BRIDGED_RESOURCES)
def test_official_plugins_do_not_alter_what_is_reported(name: str) -> None:
    document = recorded(name)
    assert read_digest(as_official(document)) == read_digest(document)


def test_a_job_that_official_plugins_replace_is_replaced_for_its_jobspec() -> None:
    changes = read_digest(as_official(recorded("model_changed"))).changes
    assert [each.cause for each in changes if each.op == "replace"] == [("jobspec",)]


def test_a_scaled_envelope_is_safe_with_official_plugins() -> None:
    assert verdict_of(read_digest(as_official(recorded("envelope_scaled")))) == "safe"


def dead_job(*reasons: str) -> dict[str, Any]:
    inputs = {"jobspec": '{"Job": {"ID": "a"}}', "rerunIfDead": True}
    return digest(step("update", JOB, "a", inputs, inputs, reasons=list(reasons)))


@pytest.mark.parametrize("reasons", [["status"], ["__meta", "status"]])
def test_a_job_that_has_ended_is_named_by_its_status_and_runs_again(reasons: list[str]) -> None:
    preview = read_digest(dead_job(*reasons))
    (change,) = preview.changes
    assert [path.path for path in change.paths] == ["status"]
    assert change.consequence == "it had ended and runs again"
    assert verdict_of(preview) == "safe"


def test_a_job_changed_outside_is_named_by_its_jobspec_alone() -> None:
    (change,) = read_digest(dead_job("allocationIds", "jobspec", "modifyIndex")).changes
    assert [path.path for path in change.paths] == ["jobspec"]


def test_settings_of_a_job_restart_nothing() -> None:
    old = {"jobspec": '{"Job": {"ID": "a"}}'}
    document = digest(step("update", JOB, "a", old, {**old, "rerunIfDead": True}))
    assert verdict_of(read_digest(document)) == "safe"


def test_an_output_that_forces_a_replace_stands_for_the_inputs_that_differ() -> None:
    replaced = step("replace", VOLUME, "data", {"a": 1}, {"a": 2}, reasons=["arn"])
    (change,) = read_digest(digest(replaced)).changes
    assert change.cause == ("a",)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(PreviewFormatError, match='unknown operation "explode"'):
        read_digest(digest(step("explode", VOLUME, "data", {}, {})))


@pytest.mark.parametrize("document", [{}, {"resources": []}, {"result": "ok"}])
def test_a_document_that_is_not_a_preview_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(PreviewFormatError, match="neither steps nor diagnostics"):
        read_digest(document)


def test_an_update_that_only_the_engine_sees_keeps_its_reasons() -> None:
    drifted = step("update", VOLUME, "data", {"a": 1}, {"a": 1}, reasons=["status"])
    (change,) = read_digest(digest(drifted)).changes
    assert [path.path for path in change.paths] == ["status"]


def test_warnings_fail_nothing_and_errors_do() -> None:
    warned = digest(diagnostics=[{"severity": "warning", "message": "warning: old"}])
    assert verdict_of(read_digest(warned)) == "no-op"
    assert read_digest(warned).warnings == ("old",)
    assert verdict_of(read_digest(digest(maybeCorrupt=True))) == "failed"
    assert verdict_of(failed_preview("it ended", environment="dev")) == "failed"


def test_a_summary_of_pools_models_and_cost() -> None:
    found = rows(gpu_pool_replaced())
    assert found["GPUs of pool", "h100"] == ("16 × H100-80", "24 × H100-80")  # noqa: RUF001
    assert found["$/h at the minimum", ""] == (
        "$196.64",
        "$294.96 (+98.32, prices of 2026-11-21)",
    )
    assert ("GPUs in all", "H100-80") not in found


def test_accelerators_of_several_pools_are_added_up() -> None:
    other = {**pool_facts(1, 98.32), "pool": "more"}
    parent = f"{PLATFORM}::platform"
    document = digest(
        step("same", POOL, "pool-h100", pool_facts(2, 196.64), parent=parent),
        step("create", POOL, "pool-more", None, other, parent=parent),
    )
    assert rows(document)["GPUs in all", "H100-80"] == ("16", "24")


def test_a_removed_model_takes_its_names_with_it() -> None:
    removed = step("delete", f"{PLATFORM}$slipway:index:ModelService", "model-llama",
                   model_facts(800, met=True, most=4))  # fmt: skip
    found = rows(digest(removed))
    assert found["model", "llama"][1] == "removed"
    assert found["name clients use", "chat"] == ("model llama", "gone")


def test_a_model_that_stays_needs_no_row() -> None:
    assert rows(recorded("no_op")) == {}


def test_an_environment_without_prices_has_no_row_of_cost() -> None:
    assert not any("$" in what for what, _ in rows(recorded("created")))


def job(digest_: str, **more: Any) -> dict[str, Any]:
    return {"jobspec": f'{{"Job": {{"ID": "model-a-{digest_}", "Count": {len(more)}}}}}', **more}


def resource(name: str, inputs: dict[str, Any], type_: str, parent: str = "") -> dict[str, Any]:
    return {"type": type_, "name": name, "parent": parent, "inputs": inputs}


def test_offline_previews_of_two_commits_are_compared() -> None:
    job_type, service = "nomad:index/job:Job", "slipway:index:ModelService"
    before = {
        "resources": [
            resource("model-a", {"model": "a"}, service),
            resource("model-a", job("1"), job_type, "model-a"),
            resource("old", {"keys": []}, "consul:index/keys:Keys", "model-a"),
            resource("seed", {"length": 8}, "random:index/randomPassword:RandomPassword"),
        ]
    }
    after = {
        "resources": [
            resource("model-a", {"model": "a"}, service),
            resource("model-a", job("2"), job_type, "model-a"),
            resource("seed", {"length": 9}, "random:index/randomPassword:RandomPassword"),
            resource("new", {}, "command:local:Command", "model-a"),
        ]
    }
    preview = compare(before, after, environment="dev")
    assert [(each.op, each.name, each.component) for each in preview.changes] == [
        ("delete", "old", "model-a"),
        ("replace", "seed", ""),
        ("replace", "model-a", "model-a"),
        ("create", "new", "model-a"),
    ]
    assert preview.unchanged == 1
    assert [each.name for each in notable(preview)] == ["seed", "old", "model-a"]
    assert verdict_of(compare(after, after, environment="dev")) == "no-op"


def test_an_offline_comparison_needs_resources_on_both_sides() -> None:
    with pytest.raises(PreviewFormatError, match="no resources"):
        compare({"steps": []}, {"resources": []}, environment="dev")


def test_a_report_that_blocks_for_an_unknown_reason_is_refused() -> None:
    with pytest.raises(PreviewFormatError, match="not among its findings"):
        read_policy_report(policy_report(findings=[], expired_waivers=[]))


def test_a_report_of_another_version_is_refused() -> None:
    with pytest.raises(PreviewFormatError, match="version"):
        read_policy_report(policy_report(schema_version=2))


@pytest.mark.parametrize(
    ("outcome", "level", "blocks"),
    [
        ("violated", "mandatory", True),
        ("violated", "advisory", False),
        ("could not be evaluated", "advisory", True),
        ("waived", "mandatory", False),
        ("something new", "advisory", True),
    ],
)
def test_what_could_not_be_evaluated_blocks_like_what_is_mandatory(
    outcome: str, level: str, blocks: bool
) -> None:
    finding = {"rule": "r", "resource": "x", "message": "m", "outcome": outcome, "level": level}
    report = read_policy_report(
        policy_report(findings=[finding], expired_waivers=[], blocked=blocks)
    )
    assert report.blocked == blocks


def test_the_json_document_has_everything_the_comment_has() -> None:
    report = read_policy_report(policy_report())
    document = diff_document(read_digest(gpu_pool_replaced()), report, Stamp(commit="abc"))
    assert document["verdict"] == "destructive"
    assert document["blocked"]
    assert document["counts"] == {"delete": 0, "replace": 1, "update": 3, "create": 0, "same": 40}
    assert [each["name"] for each in document["notable"]] == ["pool-h100"]
    assert len(document["policies"]) == 5
    assert diff_document(read_digest(recorded("no_op")), None, Stamp())["policies"] is None
