from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slipway.scaffold.text import block, document, one_line, with_entry
from tests.unit.plan.samples import ROOT

MODELS = ("config", "slipway:models")
ENTRY = {"pools": ["l4", "h100"], "replicas": {"min": 1, "max": 2}}
WORDS = st.text("abcdefgh-", min_size=1, max_size=8).map(lambda word: f"m{word}m")
COMMENT = st.sampled_from(["", "  # beside it", "\n    # below it", "\n\n  # far below"])


@pytest.mark.parametrize("path", sorted(ROOT.glob("Pulumi.*.yaml")), ids=lambda each: each.name)
def test_an_entry_adds_one_line_to_a_stack_file_and_changes_none(path: Path) -> None:
    before = path.read_text().splitlines()
    after = with_entry(path.read_text(), MODELS, "newcomer", one_line(ENTRY)).splitlines()
    line = "    newcomer: {pools: [l4, h100], replicas: {min: 1, max: 2}}"
    assert [each for each in after if each != line] == before
    assert after.count(line) == 1


@given(st.lists(st.tuples(WORDS, COMMENT), min_size=1, max_size=5, unique_by=lambda each: each[0]))
def test_no_line_of_a_file_is_lost_and_its_values_stay(models: list[tuple[str, str]]) -> None:
    lines = "".join(f"    {name}: {{pool: cpu}}{comment}\n" for name, comment in models)
    text = f"# Head\nconfig:\n  slipway:target: 'dev'\n  slipway:models:\n{lines}other: 0o17\n"
    after = with_entry(text, MODELS, "newcomer", one_line(ENTRY))
    rest = iter(after.splitlines())
    assert all(line in rest for line in text.splitlines()), after  # all of them, in their order
    expected = yaml.safe_load(text)
    expected["config"]["slipway:models"]["newcomer"] = ENTRY
    assert yaml.safe_load(after) == expected


@pytest.mark.parametrize("empty", ["{}", ""])
def test_the_first_entry_of_an_empty_mapping_has_a_line_of_its_own(empty: str) -> None:
    text = f"config:\n  slipway:models: {empty}\n  slipway:servers: 3\n"
    assert with_entry(text, MODELS, "a", one_line({"pool": "cpu"})) == (
        "config:\n  slipway:models:\n    a: {pool: cpu}\n  slipway:servers: 3\n"
    )


@pytest.mark.parametrize("models", ["", "  slipway:models:\n", "  slipway:models: {}\n"])
def test_a_mapping_that_is_empty_or_left_out_is_made_above_what_follows(models: str) -> None:
    head, tail = "config:\n  slipway:servers: 3\n", "\n# Below\nother: 1\n"
    assert with_entry(head + models + tail, MODELS, "a", one_line({"pool": "cpu"})) == (
        f"{head}  slipway:models:\n    a: {{pool: cpu}}\n{tail}"
    )


@pytest.mark.parametrize(
    "last", ["pool: cpu", "pools:\n        - cpu", "replicas:\n        min: 1"]
)
@pytest.mark.parametrize("beside", ["", "  # beside it"])
def test_a_comment_above_the_next_key_stays_above_it(last: str, beside: str) -> None:
    head = f"config:\n  slipway:models:\n    b:\n      {last}{beside}\n"
    tail = "  # Three survive one's loss.\n  slipway:servers: 3\n"
    after = with_entry(head + tail, MODELS, "a", one_line({"pool": "cpu"}))
    assert after == f"{head}    a: {{pool: cpu}}\n{tail}"


@given(
    st.sampled_from(["on", "Yes", "null", "~", "1_000", "12:30", "0x1f", ".5", "<<", "="])
    | st.text("aeonys.~:-#1", max_size=5)
)
def test_text_stays_text_as_a_key_and_as_a_value(word: str) -> None:
    text = document(block({word: word, f"{word}x": one_line({word: [word]})}), "Head")
    assert yaml.safe_load(text) == {word: word, f"{word}x": {word: [word]}}


def test_text_that_looks_like_something_else_is_quoted_and_comments_stand_apart() -> None:
    engine = block({"dtype": "float32", "max_model_len": 8}, {"dtype": "why"}, indent=2)
    source = one_line({"s3": "s3://a/b/", "revision": "2026-11-21"})
    text = document(block({"source": source, "engine": engine}), "Head\n\nmore")
    assert text == (
        "# Head\n#\n# more\n"
        'source: {s3: s3://a/b/, revision: "2026-11-21"}\n'
        "engine:\n  dtype: float32  # why\n  max_model_len: 8\n"
    )
    assert yaml.safe_load(text)["source"]["revision"] == "2026-11-21"
