from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.diff.change import PathChange
from slipway.diff.secrets import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN, secret_texts
from slipway.diff.structure import differences

WORDS = st.text(alphabet="abc", max_size=8)  # no documents of their own
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


def one(before: Any, after: Any) -> PathChange:
    (change,) = differences(before, after)
    return change


@given(JSON)
def test_equal_values_have_no_differences(value: Any) -> None:
    assert differences(value, json.loads(json.dumps(value))) == ()


@given(JSON, JSON)
def test_values_that_differ_have_differences(before: Any, after: Any) -> None:
    if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        assert differences({"a": before}, {"a": after})


def test_a_document_in_a_text_is_compared_by_its_structure() -> None:
    before = {"jobspec": json.dumps({"Job": {"ID": "a", "TaskGroups": [group(count=1)]}})}
    after = {"jobspec": json.dumps({"Job": {"TaskGroups": [group(count=2)], "ID": "a"}}, indent=2)}
    assert one(before, after) == PathChange(
        path="jobspec.TaskGroups[replica].Count", before="1", after="2"
    )


def group(count: int) -> dict[str, Any]:
    return {"Name": "replica", "Count": count}


def test_documents_that_differ_in_form_only_are_equal() -> None:
    assert differences({"a": '{"x": 1, "y": [2]}'}, {"a": '{"y":[2],\n"x":1}'}) == ()


def test_a_yaml_file_in_a_template_is_compared_by_its_structure() -> None:
    before = {"EmbeddedTmpl": "global:\n  scrape_interval: 5s\nother: 1\n"}
    after = {"EmbeddedTmpl": "global:\n  scrape_interval: 10s\nother: 1\n"}
    assert one(before, after) == PathChange(path="global.scrape_interval", before="5s", after="10s")


def test_a_text_that_is_not_a_document_has_changed_as_a_whole() -> None:
    before = {"EmbeddedTmpl": "{{ range .x }}\n a: b: c"}
    assert one(before, {"EmbeddedTmpl": "{{ end }}"}).path == "(all)"


def test_a_moved_element_of_a_list_is_not_a_change() -> None:
    first, second = {"Name": "a", "Count": 1}, {"Name": "b", "Count": 2}
    assert differences({"l": [first, second]}, {"l": [second, first]}) == ()


def test_an_added_element_is_distinguished_from_a_changed_one() -> None:
    change = one({"l": [{"Name": "a"}]}, {"l": [{"Name": "a"}, {"Name": "b"}]})
    assert (change.path, change.kind, change.after) == ("l[b]", "added", None)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("Count", 3, "3"),
        ("KillTimeout", 630_000_000_000, "630 s"),
        ("Enabled", False, "false"),
        ("x", "${meta.runtime}/bundles/xds-01/main.py", "${meta.runtime}/bundles/xds-01/main.py"),
        ("anything", "${meta.runtime}/envs/vllm-0123", "${meta.runtime}/envs/vllm-0123"),
        ("anything", "a plain text", None),
        ("address", "http://127.0.0.1:80/x", "http://127.0.0.1:80/x"),
        ("address", "http://user:pass@127.0.0.1", None),
        ("HF_TOKEN", "${meta.runtime}/envs/vllm-0123", None),
        ("Name", UNKNOWN, "(known after apply)"),
        ("Name", {"<unknown>": True}, "(known after apply)"),
        ("Name", {SIGNATURE_KEY: SECRET_SIGNATURE, "ciphertext": "x"}, "[secret]"),
        ("Name", "[secret]", "[secret]"),
        ("Name", "x" * 500, "x" * 120 + "…"),
    ],
)  # fmt: skip
def test_only_values_of_the_allow_list_are_shown(key: str, value: Any, text: str | None) -> None:
    assert one({}, {key: value}).after == text


def test_variables_are_not_shown_whatever_their_name() -> None:
    change = one({"Env": {"Name": "a"}}, {"Env": {"Name": "b"}})
    assert (change.path, change.before, change.after) == ("Env.Name", None, None)


def test_nothing_below_a_secret_sounding_key_is_shown() -> None:
    assert one({"credentials": {"Name": "a"}}, {"credentials": {"Name": "b"}}).after is None


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"password": "hunter22"}, {"hunter22"}),
        ({"kv_bytes_per_token": "hunter22", "tokens": "hunter22"}, set()),
        (
            {"a": {SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": '"hunter22"'}},
            {"hunter22", '"hunter22"'},
        ),
        ({"stdin": '{"x": {"y": ["hunter22"]}}'}, {"hunter22", '{"x": {"y": ["hunter22"]}}'}),
        ({"password": "[secret]", "Name": "hunter22"}, set()),
        ({"list": [{"apiKey": "hunter22"}]}, {"hunter22"}),
    ],
)  # fmt: skip
def test_secrets_are_found_by_their_mark_and_by_their_name(value: Any, texts: set[str]) -> None:
    assert set(secret_texts(value)) == texts
