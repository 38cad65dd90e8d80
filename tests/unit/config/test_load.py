from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.document import Origin
from slipway.config.errors import ConfigError, Problem
from slipway.config.load import DeclaredLoad, Lengths, TracedLoad, declared_load
from slipway.config.model import Model, parse_model
from slipway.config.trace import SHOWN_PROBLEMS, read_trace

NUMBERS = {"requests_per_s": 2, "input_tokens": 200, "output_tokens": {"p50": 100, "p95": 400}}


def _model(load: Any) -> Model:
    values = {
        "name": "chat",
        "engine": {"kind": "vllm", "architecture": "llama-3.1-8b"},
        "load": load,
    }
    return parse_model(values, origin=Origin(source="models/chat.yaml"))


def _problem(load: Any) -> Problem:
    with pytest.raises(ConfigError) as caught:
        _model(load)
    (problem,) = caught.value.problems
    return problem


def _line(timestamp: float = 0, tokens: int = 100, answer: int = 10, **others: Any) -> str:
    values = {"timestamp": timestamp, "input_length": tokens, "output_length": answer}
    return json.dumps(values | others)


def _trace(folder: Path, *lines: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


# Declared in the model's file.


def test_a_number_of_tokens_is_a_distribution_without_spread() -> None:
    load = _model(NUMBERS).settings.load
    assert isinstance(load, DeclaredLoad)
    assert load.input_tokens == Lengths(p50=200, p95=200)
    assert load.input_tokens.mean == 200
    assert load.output_tokens == Lengths(p50=100, p95=400)


def test_the_mean_of_a_distribution_by_hand() -> None:
    """ln(400/100) / 1.6449 = 0.8428; exp(0.8428² / 2) = 1.4264."""
    assert Lengths(p50=100, p95=400).mean == pytest.approx(142.64, abs=0.01)


@given(p50=st.integers(1, 10_000), more=st.integers(0, 100_000))
def test_the_mean_is_never_below_the_median(p50: int, more: int) -> None:
    mean = Lengths(p50=p50, p95=p50 + more).mean
    assert mean >= p50
    assert math.isfinite(mean)


def test_a_ramp_in_minutes_becomes_seconds() -> None:
    load = _model(NUMBERS | {"ramp": {"to_requests_per_s": 9, "minutes": 5}}).settings.load
    assert isinstance(load, DeclaredLoad)
    ramp = declared_load(load, "a test").ramp
    assert ramp is not None
    assert (ramp.to_requests_per_s, ramp.seconds) == (9, 300)


MISTAKES = {
    "a trace beside numbers": (
        NUMBERS | {"trace": "day.jsonl"},
        ("load", "may contradict it", "keep `trace`, or the numbers"),
    ),
    "p95 below p50": (
        NUMBERS | {"input_tokens": {"p50": 9, "p95": 8}},
        ("load.input_tokens", "p50 is greater than p95", "exchange"),
    ),
    "tokens in words": (
        NUMBERS | {"input_tokens": "many"},
        ("load.input_tokens", "or {p50, p95}", "500"),
    ),
    "no tokens": (
        NUMBERS | {"input_tokens": 0},
        ("load.input_tokens", "a number of tokens from 1", "500"),
    ),
    "a ramp that goes down": (
        NUMBERS | {"ramp": {"to_requests_per_s": 2, "minutes": 1}},
        ("load", "ramps down", "use more than 2"),
    ),
    "a misspelled key": (
        NUMBERS | {"rmp": 1},
        ("load.rmp", "unknown key", 'did you mean "ramp"?'),
    ),
    "an unknown unit of a trace": (
        {"trace": "day.jsonl", "unit": "h"},
        ("load.unit", "'ms' or 's'", "use one of: ms, s"),
    ),
}


@pytest.mark.parametrize(("load", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_names_its_key_and_its_fix(load: Any, complaint: tuple[str, str, str]) -> None:
    key, message, fix = complaint
    problem = _problem(load)
    assert (problem.source, problem.key) == ("models/chat.yaml", key)
    assert message in problem.message
    assert fix in problem.fix


# Read from a trace.


def test_a_load_may_be_a_trace() -> None:
    load = _model({"trace": "traces/day.jsonl", "unit": "s"}).settings.load
    assert load == TracedLoad(trace="traces/day.jsonl", unit="s")


@pytest.mark.parametrize(("unit", "step"), [("ms", 500), ("s", 0.5)])
def test_a_traces_load_by_hand(tmp_path: Path, unit: Any, step: float) -> None:
    lines = [_line(step * k, tokens=100 + k, answer=10, session="a") for k in range(21)]
    load = read_trace(_trace(tmp_path, *lines), source="day.jsonl", unit=unit)
    assert load.requests_per_s == pytest.approx(21 / 10)
    assert load.input_tokens == Lengths(p50=110, p95=119)
    assert load.output_tokens == Lengths(p50=10, p95=10)
    assert load.ramp is None
    assert load.source == "day.jsonl: 21 requests"


def test_a_traces_ramp_is_its_steepest_minute(tmp_path: Path) -> None:
    counts = [6, 6, 30, 24, 1]  # requests in each minute
    lines = [_line(60_000 * m + k) for m, count in enumerate(counts) for k in range(count)]
    ramp = read_trace(_trace(tmp_path, *lines), source="day.jsonl").ramp
    assert ramp is not None
    assert (ramp.to_requests_per_s, ramp.seconds) == (0.5, 60)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        (_line("soon"), "`timestamp` must be a number"),  # type: ignore[arg-type]
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "finite"),
        (_line(tokens=0), "`input_length` must be a whole number"),
        (_line(answer=1.5), "`output_length` must be a whole number"),  # type: ignore[arg-type]
    ],
)
def test_a_broken_line_is_named_and_nothing_is_read(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_trace(_trace(tmp_path, _line(), "", line, _line(9)), source="day.jsonl")
    (problem,) = caught.value.problems
    assert (problem.source, problem.line) == ("day.jsonl", 3)
    assert message in problem.message
    assert "1 of 4 lines are broken; nothing was read" in problem.message


def test_of_many_broken_lines_the_first_are_shown_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_trace(_trace(tmp_path, *["x"] * 40), source="day.jsonl")
    assert len(caught.value.problems) == SHOWN_PROBLEMS
    assert "40 of 40 lines" in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("lines", "message"), [([], "fewer than two"), ([_line()], "fewer than two")]
)
def test_a_trace_without_a_rate_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_trace(_trace(tmp_path, *lines), source="day.jsonl")


def test_a_missing_trace_is_a_mistake_of_the_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"day.jsonl: cannot be read"):
        read_trace(tmp_path / "none", source="day.jsonl")
