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
from slipway.config.load import DeclaredLoad, Lengths, Load, TracedLoad, declared_load
from slipway.config.model import Model, parse_model
from slipway.config.trace import SHOWN_LINES, read_trace

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


def _read(path: Path, unit: Any = "ms") -> Load:
    """As the model of line 9 of its file names it."""
    origin = Origin(source="models/chat.yaml", lines={("load", "trace"): 9})
    return read_trace(path, TracedLoad(trace="day.jsonl", unit=unit), origin)


def _refused(path: Path) -> Problem:
    with pytest.raises(ConfigError) as caught:
        _read(path)
    (problem,) = caught.value.problems
    return problem


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
        ("load.input_tokens", "p50 is greater than p95", "swap"),
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
        NUMBERS | {"ramp": {"to_requests_per_s": 1.5, "minutes": 1}},
        ("load", "to_requests_per_s, 1.5, is not more than requests_per_s, 2", "use more than 2"),
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
    load = _read(_trace(tmp_path, *lines), unit)
    assert load.requests_per_s == pytest.approx(21 / 10)
    assert load.input_tokens == Lengths(p50=110, p95=119)
    assert load.output_tokens == Lengths(p50=10, p95=10)
    assert load.ramp is None
    assert load.source == "day.jsonl: 21 requests"


def test_a_traces_ramp_is_its_steepest_minute(tmp_path: Path) -> None:
    counts = [6, 6, 30, 24, 1]  # requests in each minute
    lines = [_line(60_000 * m + k) for m, count in enumerate(counts) for k in range(count)]
    ramp = _read(_trace(tmp_path, *lines)).ramp
    assert ramp is not None
    assert (ramp.to_requests_per_s, ramp.seconds) == (0.5, 60)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", 'is not JSON (found "{oops")'),
        ("[" * 100_000, "is not JSON (found "),
        ("[1]", "is not a JSON object (found [1])"),
        (_line("soon"), '`timestamp` must be a number (found "soon")'),  # type: ignore[arg-type]
        ('{"input_length": 1, "output_length": 1}', "`timestamp` must be a number"),
        (_line(math.nan), "finite, and at most 1000000000000000 (found NaN)"),
        (_line(10**400), "finite, and at most 1000000000000000 (found 1000"),
        (_line(tokens=-4), "`input_length` must be a whole number from 1 to 10000000 (found -4)"),
        (_line(answer=10**8), "`output_length` must be a whole number from 1 to 10000000 (found "),
        (_line(answer=1.5), "(found 1.5)"),  # type: ignore[arg-type]
    ],
    ids=range(10),
)
def test_a_broken_line_is_shown_with_its_value_and_nothing_is_read(
    tmp_path: Path, line: str, said: str
) -> None:
    problem = _refused(_trace(tmp_path, _line(), "", line, _line(9)))
    assert "\n    day.jsonl:3: " in problem.message
    assert said in problem.message
    assert "day.jsonl: 1 of 4 lines are broken; nothing was read" in str(problem)
    assert "repair" in problem.fix


def test_of_many_broken_lines_the_first_are_shown_and_all_are_one_mistake(tmp_path: Path) -> None:
    problem = _refused(_trace(tmp_path, *["x"] * 40))
    assert "40 of 40 lines" in problem.message
    assert problem.message.count("is not JSON") == SHOWN_LINES
    assert f"and {40 - SHOWN_LINES} more" in problem.message


@pytest.mark.parametrize("lines", [[], [_line()]])
def test_a_trace_without_a_rate_is_a_mistake_of_the_model(tmp_path: Path, lines: list[str]) -> None:
    problem = _refused(_trace(tmp_path, *lines))
    assert str(problem).startswith("models/chat.yaml:9: load.trace: holds fewer than two requests")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"\xff\xfe", "cannot be read: it is not UTF-8")],
)
def test_a_trace_that_cannot_be_read_is_a_mistake_of_the_model(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "day.jsonl"
    if content is not None:
        path.write_bytes(content)
    problem = _refused(path)
    assert str(problem).startswith(f"models/chat.yaml:9: load.trace: {message}")
    assert problem.value == "day.jsonl"


def test_a_wrong_clock_costs_no_time(tmp_path: Path) -> None:
    """Thirty thousand years have more minutes than can be looked at."""
    load = _read(_trace(tmp_path, _line(0), _line(1), _line(10**15)))
    assert load.ramp is None
    assert load.requests_per_s > 0
