"""Files of prompts and traces, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.bench.made_prompts import BLOCK_TOKENS, WORDS, declared_prompts, traced_prompts
from cli.bench.workload import Prompt, Workload
from cli.bench.written_prompts import read_prompts
from cli.errors import WRONG_INPUT, CliError
from tests.unit.plan.samples import ROOT

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, *lines: Any) -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts))
        return path

    return written


def request(**values: Any) -> dict[str, Any]:
    return {"timestamp": 0, "input_length": 40, "output_length": 6, **values}


def traced(path: Path, **options: Any) -> Workload:
    given = {
        "unit": "ms",
        "names": ("smollm2", "small"),
        "max_model_len": 2048,
        "salt": "a",
        **options,
    }
    return traced_prompts(path, **given)


def refusal(read: Callable[[], Workload]) -> CliError:
    with pytest.raises(CliError) as refused:
        read()
    assert refused.value.exit_code == WRONG_INPUT
    assert refused.value.fix
    return refused.value


def test_each_line_is_a_prompt(write: Write) -> None:
    read = read_prompts(write("prompts.txt", "hello", "", '{"a": 1}'), max_tokens=9)
    assert list(read.prompts) == [
        Prompt(text="hello", max_tokens=9),
        Prompt(text='{"a": 1}', max_tokens=9),
    ]
    assert read.source == "prompts.txt, 2 prompts"


def test_a_line_of_json_may_have_its_own_instructions_and_length(write: Write) -> None:
    path = write(
        "prompts.jsonl", '"hello"', {"prompt": "a\nb", "max_tokens": 3, "system": "be brief"}
    )
    assert read_prompts(path, max_tokens=9).prompts == [
        Prompt(text="hello", max_tokens=9),
        Prompt(text="a\nb", max_tokens=3, system="be brief"),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", "prompts.jsonl:2: is not JSON"),
        ({"text": "hello"}, "has no text as its `prompt`"),
        ({"prompt": 7}, "has no text as its `prompt`"),
        ({"prompt": "x", "max_token": 7}, "`max_token` is not one of prompt, system, max_tokens"),
        ({"prompt": "x", "max_tokens": 0}, "`max_tokens` must be a whole number from 1 (found 0)"),
        ({"prompt": "x", "system": 1}, "`system` must be text"),
    ],
)
def test_a_wrong_line_is_named_with_its_value(write: Write, line: Any, said: str) -> None:
    path = write("prompts.jsonl", '"hello"', line)
    assert said in refusal(lambda: read_prompts(path, max_tokens=9)).message


def test_a_file_without_prompts_or_without_text_is_refused(write: Write, tmp_path: Path) -> None:
    assert (
        "has no prompts"
        in refusal(lambda: read_prompts(write("empty.txt", "", "  "), max_tokens=9)).message
    )
    absent = tmp_path / "absent.txt"
    assert "is no file" in refusal(lambda: read_prompts(absent, max_tokens=9)).message
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert "UTF-8" in refusal(lambda: read_prompts(tmp_path / "latin.txt", max_tokens=9)).message


def test_a_trace_gives_lengths_and_its_own_load(write: Write) -> None:
    path = write(
        "trace.jsonl", request(timestamp=2000, input_length=80, output_length=9), request(), ""
    )
    read = traced(path)
    assert [len(prompt.text.split()) for prompt in read.prompts] == [40, 80]  # as they arrive
    assert [prompt.max_tokens for prompt in read.prompts] == [6, 9]
    assert all(prompt.whole_length and not prompt.chat for prompt in read.prompts)
    assert read.load is not None
    assert read.load.requests_per_s == 1.0
    assert read.source == "trace.jsonl, the lengths of 2 requests"


@pytest.mark.parametrize("keys", [{"session": "a7"}, {"session": 3}, {"hash_ids": [5, 6, 7]}])
def test_requests_share_the_beginnings_that_the_trace_names(
    write: Write, keys: dict[str, Any]
) -> None:
    path = write(
        "trace.jsonl",
        request(input_length=600, **keys),
        request(input_length=900, **keys),
        request(input_length=900),
    )
    first, longer, other = (prompt.text.split() for prompt in traced(path).prompts)
    assert longer[:600] == first
    assert other[:600] != first


def test_only_equal_blocks_of_a_trace_have_equal_words(write: Write) -> None:
    lengths = {"input_length": 3 * BLOCK_TOKENS}
    path = write(
        "trace.jsonl",
        request(hash_ids=[1, 2, 3], **lengths),
        request(hash_ids=[1, 2, 9], **lengths),
    )
    first, second = (prompt.text.split() for prompt in traced(path).prompts)
    assert first[: 2 * BLOCK_TOKENS] == second[: 2 * BLOCK_TOKENS]
    assert first[2 * BLOCK_TOKENS :] != second[2 * BLOCK_TOKENS :]


def test_a_trace_of_another_model_is_refused_by_its_name_or_its_lengths(write: Write) -> None:
    named = write("trace.jsonl", request(model="small"), request(model="gpt-4"))
    message = refusal(lambda: traced(named)).message
    assert 'trace.jsonl:2: the request is of the model "gpt-4", not of smollm2' in message
    long = write("trace.jsonl", request(), request(input_length=2040, output_length=9))
    message = refusal(lambda: traced(long)).message
    assert "trace.jsonl:2: 2,049 tokens (2,040 + 9) are more than the 2,048" in message
    assert traced(long, max_model_len=2049).prompts


@pytest.mark.parametrize("kind", ["requests", "broken"])
def test_the_lines_of_a_trace_are_read_as_everywhere_else(write: Write, kind: str) -> None:
    known = json.loads((ROOT / "schemas/trace.lines.json").read_text())
    for line in known[kind]:
        path = write("trace.jsonl", request(), line)
        if kind == "requests":
            assert len(traced(path, max_model_len=None).prompts) == 2
        else:
            assert refusal(lambda: traced(path)).message.startswith(f"{path}:2: ")  # noqa: B023


def test_a_trace_of_one_request_has_no_rate(write: Write) -> None:
    path = write("trace.jsonl", request())
    assert "fewer than two requests" in refusal(lambda: traced(path)).message


@pytest.mark.parametrize("keys", [{}, {"session": "a7"}, {"hash_ids": [5]}])
def test_a_trace_that_is_asked_again_is_asked_with_other_words(
    write: Write, keys: dict[str, Any]
) -> None:
    read = traced(write("trace.jsonl", *[request(input_length=600, **keys)] * 10))
    asked = [read.first, *read.asked(24, after=0)]
    beginnings = {prompt.text[:200] for prompt in asked}
    assert len(beginnings) == (25 if not keys else 4)  # what shares a beginning, in each round
    assert {len(prompt.text.split()) for prompt in asked} == {600}
    assert [prompt.text for prompt in read.asked(3, after=9)] == [
        prompt.text for prompt in asked[10:13]
    ]


def test_made_prompts_differ_and_have_their_length() -> None:
    made, other = (
        declared_prompts(30, 7, count=20, source="made", salt=salt).prompts for salt in "ab"
    )
    assert not {prompt.text for prompt in made} & {prompt.text for prompt in other}
    assert len({prompt.text for prompt in made}) == 20
    assert {len(prompt.text.split()) for prompt in made} == {30}
    assert {prompt.max_tokens for prompt in made} == {7}


def test_a_made_word_is_one_token_of_the_simulated_engine() -> None:
    """services/engine_sim cuts a text into pieces of up to 8 letters and the space after them."""
    assert {len(word) for word in WORDS} <= set(range(1, 9))
    assert all(word.isalpha() for word in WORDS)


@given(st.integers(1, 9), st.integers(0, 30), st.integers(1, 40))
def test_prompts_are_asked_in_turn(known: int, after: int, requests: int) -> None:
    prompts = [Prompt(text=str(number), max_tokens=1) for number in range(known)]
    workload = Workload(prompts=prompts, source="x")
    asked = [prompt.text for prompt in workload.asked(requests, after=after)]
    assert asked == [str((after + place) % known) for place in range(requests)]
