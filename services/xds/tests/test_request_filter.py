"""What the gateway's filter finds in a request: the model, whether it streams, and the key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.filter import Filter, Seen

LONG = "x" * 3000
SESSION = {"key": "prefix", "session_header": "x-session-id"}

texts = st.text(max_size=40) | st.text(alphabet='"\\{}[],: model\n', max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
FILTER = Filter()


def asked(body: dict[str, Any], path: str = "/v1/responses") -> Seen:
    headers = {":method": "POST", ":path": path, "content-type": "application/json"}
    return FILTER.request(headers, json.dumps(body).encode())


@given(
    others=st.dictionaries(texts, values, max_size=5),
    content=texts,
    streams=st.none() | st.booleans(),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
    data=st.data(),
)
def test_members_at_the_top_are_found_whatever_else_a_body_contains(
    others: dict[str, Any],
    content: str,
    streams: bool | None,
    indent: int | None,
    ascii_only: bool,
    data: st.DataObject,
) -> None:
    members = {**others, "model": "tiny", "messages": [{"role": "user", "content": content}]}
    members.pop("stream", None)
    if streams is not None:
        members["stream"] = streams
    shuffled = dict(data.draw(st.permutations(list(members.items()))))
    body = json.dumps(shuffled, indent=indent, ensure_ascii=ascii_only)
    seen = FILTER.post(body.encode("utf-8", "surrogatepass"))
    assert (seen.model, seen.streams, seen.unknown) == ("tiny", streams is True, False)
    assert seen.key is not None


@given(others=st.dictionaries(texts, values, max_size=5), data=st.data())
def test_a_body_that_is_cut_off_names_no_model(others: dict[str, Any], data: st.DataObject) -> None:
    body = json.dumps({**others, "model": "tiny"}).encode()
    cut = data.draw(st.integers(0, len(body) - 1))
    seen = FILTER.post(body[:cut])
    assert (seen.model, seen.key, seen.unknown) == (None, None, False)


@given(st.binary(max_size=200))
def test_garbage_names_no_model(body: bytes) -> None:
    assert FILTER.post(body).model is None


def test_json_inside_a_prompt_is_text() -> None:
    seen = FILTER.chat('{"model": "other", "stream": true}', '"model": "other"', stream=False)
    assert (seen.model, seen.streams) == ("tiny", False)


def test_of_two_members_with_one_name_the_last_counts_as_for_the_engine() -> None:
    assert FILTER.post(b'{"model": "other", "model": "tiny"}').model == "tiny"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 600_000,
        b'{"a":' * 600_000,
        b'["' * 600_000,
        b'"\\' * 300_000,
        b'{"model": "tiny", "a": ',
    ],
    ids=["arrays", "objects", "strings", "backslashes", "no value"],
)
def test_a_body_of_brackets_or_quotes_only_names_no_model(body: bytes) -> None:
    assert FILTER.post(body).model is None


def test_more_marks_than_a_worker_has_time_for_end_the_search() -> None:
    body = b'{"a": [' + b"[]," * 400_000 + b'1], "model": "tiny"}'
    assert FILTER.post(body).model is None


JSON_IN_A_STRING = '"' * 300_000


@pytest.mark.parametrize(
    "long",
    [
        {"input": [{"type": "function_call_output", "output": JSON_IN_A_STRING}]},
        {"input": "hello", "metadata": {"a": JSON_IN_A_STRING}},
        {"messages": [{"role": "user", "content": JSON_IN_A_STRING}]},
    ],
    ids=["output of a tool", "metadata", "message"],
)
def test_a_string_with_as_many_quotes_as_a_request_may_have_costs_no_key(
    long: dict[str, Any],
) -> None:
    seen = asked({"model": "tiny", "stream": True, **long})
    assert (seen.model, seen.streams, seen.source) == ("tiny", True, "prefix")


@pytest.mark.parametrize(
    ("members", "key"),
    [
        (b'"metadata": {"a"}, "prompt": "hello"', ""),
        (b'"messages": [{"role"}]', ""),
        (b'"messages": [{"role"}], "user": "u"', "user"),
    ],
)
def test_what_only_the_key_needs_may_be_broken(members: bytes, key: str) -> None:
    seen = FILTER.post(b'{"model": "tiny", ' + members + b"}")
    assert (seen.model, seen.source) == ("tiny", key)


def test_a_deep_body_and_a_long_one_are_read() -> None:
    deep = b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b', "model": "tiny"}'
    assert FILTER.post(deep).model == "tiny"
    assert FILTER.chat("x" * 220_000, "\n" * 50_000).model == "tiny"


@pytest.mark.parametrize("model", ["a b", "a\r\nx-admin: 1", "ä", "-", "a" * 129, "\\u0041"])
def test_a_name_that_no_model_can_have_reaches_no_header(model: str) -> None:
    seen = FILTER.post(json.dumps({"model": model}, ensure_ascii=False).encode())
    assert (seen.model, seen.unknown) == (None, True)


def test_a_model_that_does_not_exist_is_marked_as_unknown() -> None:
    seen = FILTER.chat("hello", model="other")
    assert (seen.model, seen.unknown, seen.key) == (None, True, None)


def test_a_slash_may_be_escaped() -> None:
    seen = Filter({"meta/llama": {"key": "prefix"}}).post(b'{"model": "meta\\/llama"}')
    assert seen.model == "meta/llama"


@pytest.mark.parametrize("body", [b'{"model": 1}', b'{"model": null}', b"{}", b"[]", b"", None])
def test_a_body_without_the_name_of_a_model_names_none(body: bytes | None) -> None:
    seen = FILTER.post(body)
    assert (seen.model, seen.unknown) == (None, False)


def test_only_posts_of_json_to_the_api_are_read() -> None:
    body = b'{"model": "tiny"}'
    assert FILTER.post(body, content_type="text/plain").model is None
    headers = {":method": "POST", ":path": "/other", "content-type": "application/json"}
    assert FILTER.request(headers, body).model is None


def test_a_model_is_named_by_the_path_that_asks_for_it() -> None:
    ask = {":method": "GET", ":path": "/v1/models/tiny?x=1"}
    assert FILTER.request(ask).model == "tiny"
    assert FILTER.request({**ask, ":path": "/v1/models/other"}).unknown
    assert FILTER.request({**ask, ":path": "/v1/models"}).model is None


def test_a_key_is_of_the_session_then_of_the_user_then_of_the_prompt() -> None:
    worker = Filter({"tiny": SESSION})
    body = {"model": "tiny", "user": "u", "messages": [{"role": "user", "content": "hello"}]}
    text = json.dumps(body).encode()
    by_session = worker.post(text, x_session_id="s")
    by_user = worker.post(text)
    by_prompt = worker.post(json.dumps({**body, "user": ""}).encode())
    assert [by_session.source, by_user.source, by_prompt.source] == ["session", "user", "prefix"]
    assert len({by_session.key, by_user.key, by_prompt.key}) == 3
    assert worker.post(text, x_session_id="s").key == by_session.key


@pytest.mark.parametrize(
    "named",
    [
        {"user": "u"},
        {"prompt_cache_key": "u", "user": "other"},
        {"metadata": {"a": [{}], "user_id": "u"}},
        {"user": None, "prompt_cache_key": "", "metadata": {"user_id": "u"}},
    ],
)
def test_who_asks_is_found_where_each_api_says_it(named: dict[str, Any]) -> None:
    seen = FILTER.chat("hello", **named)
    assert seen.source == "user"
    assert seen.key == FILTER.chat("another prompt", user="u").key


@pytest.mark.parametrize(
    "named", [{"user": None}, {"user": 7}, {"metadata": "u"}, {"metadata": {"user_id": ["u"]}}]
)
def test_what_is_no_name_is_nobody(named: dict[str, Any]) -> None:
    assert FILTER.chat("hello", **named).source == "prefix"


def test_all_turns_of_a_responses_conversation_have_one_key() -> None:
    def key(given: object) -> str | None:
        return asked({"model": "tiny", "input": given}).key

    first = {"role": "user", "content": [{"type": "input_text", "text": "hello " * 100}]}
    later = [first, {"type": "function_call", "name": "f"}, {"role": "user", "content": "so?"}]
    other = {"role": "user", "content": "bye " * 100}
    assert key([first]) == key(later) != key([other])
    assert key("hello") != key("bye")


@pytest.mark.parametrize("given", ["hello", ["hello", "bye"]])
def test_texts_to_embed_have_no_key_unless_somebody_asks(given: object) -> None:
    body = {"model": "tiny", "input": given}
    assert asked(body, path="/v1/embeddings").key is None
    assert asked({**body, "user": "u"}, path="/v1/embeddings").source == "user"


@pytest.mark.parametrize(
    ("key", "found"), [("session", ["session", ""]), ("user", ["session", "user"])]
)
def test_nothing_after_the_last_kind_of_key_that_is_wanted_is_used(
    key: str, found: list[str]
) -> None:
    worker = Filter({"tiny": {**SESSION, "key": key}})
    text = b'{"model": "tiny", "user": "u", "prompt": "hello"}'
    assert [worker.post(text, x_session_id="s").source, worker.post(text).source] == found
    assert worker.post(b'{"model": "tiny", "prompt": "hello"}').key is None


def test_models_have_keys_of_their_own() -> None:
    worker = Filter({"tiny": SESSION, "big": SESSION})
    keys = {worker.chat("hello", model=model).key for model in ("tiny", "big")}
    keys |= {worker.chat("hello", model=model, user="u").key for model in ("tiny", "big")}
    assert len(keys) == 4


def test_all_turns_of_a_conversation_have_one_key() -> None:
    first = FILTER.chat("be kind", "hello " * 100)
    later = FILTER.chat("be kind", "hello " * 100, "hi", "and now?", "well", "so?")
    other = FILTER.chat("be kind", "bye " * 100)
    assert first.key == later.key != other.key


def test_requests_of_a_group_have_one_key_whatever_they_ask() -> None:
    document = "a long document " * 200
    keys = {FILTER.chat("be kind", f"{document} question {number}").key for number in range(5)}
    assert len(keys) == 1


def test_a_system_prompt_that_all_share_is_not_their_key() -> None:
    worker = Filter()
    keys = [worker.chat(LONG, f"conversation {number}" + LONG).key for number in range(100)]
    assert len(set(keys[:15])) == 1  # nobody knows yet that all share it
    assert len(set(keys[32:])) == len(keys[32:])


def test_a_conversation_below_a_shared_system_prompt_keeps_its_key() -> None:
    worker = Filter()
    for number in range(64):
        worker.chat(LONG, f"other {number}")
    first = worker.chat(LONG, "hello")
    later = worker.chat(LONG, "hello", "hi", "and now?")
    assert first.key == later.key


def test_groups_below_a_shared_system_prompt_are_told_apart_by_what_follows() -> None:
    worker = Filter()
    documents = [f"document {number} " * 400 for number in range(20)]
    for number in range(200):
        worker.chat(LONG, documents[number % 20] + f"question {number}")
    keys = {worker.chat(LONG, documents[0] + f"question {number}").key for number in range(5)}
    others = {worker.chat(LONG, document + "question").key for document in documents}
    assert (len(keys), len(others)) == (1, 20)


def test_a_prefix_is_hot_no_longer_when_others_have_followed() -> None:
    worker = Filter()
    for number in range(64):
        worker.chat(LONG, f"conversation {number}")
    hot = worker.chat(LONG, "hello").key
    for number in range(64):
        worker.chat(f"other {number}" + LONG, "hello")
    assert worker.chat(LONG, "hello").key != hot


def test_the_keys_of_two_workers_are_the_same() -> None:
    one, two = Filter(), Filter()
    for number in range(50):
        assert one.chat(f"{number}", "hello").key == two.chat(f"{number}", "hello").key


def test_keys_of_similar_prompts_differ() -> None:
    keys = {FILTER.chat("be kind", f"question {number}").key for number in range(20_000)}
    assert len(keys) == 20_000
