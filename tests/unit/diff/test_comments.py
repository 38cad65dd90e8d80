"""The comments of recorded and made previews, whole (tests/golden/diff)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from slipway.diff.budget import COMMENT_BYTES
from slipway.diff.comment import render, render_report
from slipway.diff.digest import read_digest
from slipway.diff.document import diff_document
from slipway.diff.json_text import read_json
from slipway.diff.policies import read_policy_report
from slipway.diff.verdict import notable, verdict_of
from tests.components.golden import assert_golden_text
from tests.counting import calls_during
from tests.unit.diff import digests
from tests.unit.diff.digests import RECORDED, STAMP, recorded
from tests.unit.diff.reading import assert_balanced, visible

GITHUB_LIMIT = 65_536

VERDICTS = {
    "created": "safe",
    "envelope_scaled": "safe",
    "failed_by_protection": "failed",
    "failed_in_the_program": "failed",
    "goal_changed": "safe",
    "model_added": "safe",
    "model_changed": "disruptive",
    "model_removed": "destructive",
    "monitoring_updated": "disruptive",
    "no_op": "no-op",
    "node_removed": "destructive",
    "pool_removed": "destructive",
    "seed_replaced": "destructive",
}
MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "gpu_pool_replaced": digests.gpu_pool_replaced,
    "promise_broken": digests.promise_broken,
    "hostile_names": digests.hostile_names,
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_comment_of_a_recorded_preview_is_the_golden_one(name: str) -> None:
    preview = read_digest(recorded(name))
    assert verdict_of(preview) == VERDICTS[name]
    text = render(preview, None, STAMP)
    assert_golden_text(f"diff/{name}.md", text)
    assert_balanced(text)


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_comment_of_a_made_preview_is_the_golden_one(name: str) -> None:
    text = render(read_digest(MADE[name]()), None, STAMP)
    assert_golden_text(f"diff/{name}.md", text)
    assert_balanced(text)


def test_the_comment_of_a_blocked_change_is_the_golden_one() -> None:
    report = read_policy_report(digests.policy_report())
    text = render(read_digest(digests.gpu_pool_replaced()), report, STAMP)
    assert_golden_text("diff/policy_violated.md", text)
    assert "Blocked by 3 of the policies' findings" in text.splitlines()[3]


def test_every_recording_has_a_verdict_here() -> None:
    assert sorted(VERDICTS) == RECORDED
    assert len(RECORDED) + len(MADE) >= 12


@pytest.mark.thorough
@pytest.mark.parametrize("make", [digests.many, digests.all_deleted])
def test_five_thousand_resources_fit_a_comment(make: Callable[[int], dict[str, Any]]) -> None:
    comment = render(read_digest(make(5000)), None, STAMP)
    assert len(comment) < GITHUB_LIMIT
    assert len(comment.encode()) <= COMMENT_BYTES
    assert_balanced(comment)
    assert "too small for everything" in comment
    assert "`report.md`" in comment


def comment_of(text: str) -> str:
    return render(read_digest(read_json(text)), None, STAMP)


@pytest.mark.parametrize(
    ("make", "counts"),
    [(digests.many, (100, 200, 300)), (digests.all_deleted, (600, 700, 800))],
)
def test_the_next_resources_are_as_much_work_as_the_ones_before(
    make: Callable[[int], dict[str, Any]], counts: tuple[int, ...]
) -> None:
    few, more, many = (
        calls_during(partial(comment_of, json.dumps(make(count)))) for count in counts
    )
    assert many - more == pytest.approx(more - few, rel=0.05)


def test_every_one_of_hundreds_of_replaced_models_is_named() -> None:
    preview = read_digest(digests.many(2000))
    head = render(preview, None, STAMP).partition("<details>")[0]
    assert len(notable(preview)) == 500
    assert all(f"`{change.name}`" in head for change in notable(preview))


def test_the_report_names_what_the_comment_leaves_out() -> None:
    preview = read_digest(digests.all_deleted(5000))
    comment, report = render(preview, None, STAMP), render_report(preview, None, STAMP)
    head = comment.partition("<details>")[0]
    assert " and 4900 more (`aws Instance`)" in head
    assert head.count("`node-") == 100
    assert all(f"`{change.name}`" in report for change in preview.changes)
    assert "too small" not in report
    assert_balanced(report)


def test_a_comment_is_never_cut_in_a_fold_whatever_its_limit() -> None:
    preview = read_digest(recorded("pool_removed"))
    whole = render(preview, None, STAMP)
    for limit in range(4_000, len(whole.encode()) + 4_000, 1_000):
        comment = render(preview, None, STAMP, limit_bytes=limit)
        assert len(comment.encode()) <= limit
        assert_balanced(comment)
        assert ("too small" in comment) == (comment != whole)


def test_no_secret_leaves_a_preview() -> None:
    document, canaries = digests.with_canaries()
    preview = read_digest(document)
    made = (
        render(preview, None, STAMP),
        render_report(preview, None, STAMP),
        json.dumps(diff_document(preview, None, STAMP)),
    )
    assert len(canaries) > 20
    for text in made:
        assert digests.CANARY not in text
        assert "with-secrets" in text
        assert "[secret]" in text


def test_the_canaries_would_be_seen() -> None:
    document, canaries = digests.with_canaries()
    text = json.dumps(document)
    assert all(canary in text for canary in canaries)


def test_nothing_in_a_name_acts_as_markup() -> None:
    text = render(read_digest(digests.hostile_names()), None, STAMP)
    assert "\x1b" not in text
    assert "\u202e" not in text
    seen = visible(text)
    assert "<img" not in seen
    assert "@everyone" not in seen
    assert "# heading" not in seen
    assert seen.count("<!--") == 1


def test_the_verdict_comes_before_any_fold() -> None:
    for name in RECORDED:
        lines = render(read_digest(recorded(name)), None, STAMP).splitlines()
        assert lines[0] == "<!-- slipway-diff:dev -->"
        assert lines[1].startswith(f"### {VERDICTS[name]}: ")


def test_every_loss_of_state_or_accelerators_is_named_before_any_fold() -> None:
    made = [*map(recorded, RECORDED), digests.gpu_pool_replaced()]
    found = 0
    for document in made:
        preview = read_digest(document)
        head = render(preview, None, STAMP).partition("<details>")[0]
        for change in preview.changes:
            held = change.holds_state or change.accelerator
            if (
                change.op in ("delete", "replace")
                and held
                and not change.type.startswith("slipway:")
            ):
                found += 1
                assert f"**{change.op}**" in head
                assert f"`{change.name}`" in head
    assert found >= 8
