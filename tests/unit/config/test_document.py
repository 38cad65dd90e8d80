"""Odd YAML is refused with its place, never with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slipway.config.document import Origin, read_document, read_value
from slipway.config.errors import ConfigError


def _written(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["2026-13-45", "2026-01-01T99:00:00Z", "9" * 5000])
def test_an_invalid_date_or_number_stays_text(tmp_path: Path, text: str) -> None:
    path = _written(tmp_path, f"day: {text}\n")
    assert read_document(path, source="a.yaml").values == {"day": text}
    assert read_value(text) == text


def test_other_readers_of_yaml_read_as_before() -> None:
    with pytest.raises(ValueError, match="month"):
        yaml.safe_load("2026-13-45")


@pytest.mark.parametrize("text", ["a: &a {b: *a}\n", "a: " + "[" * 5000 + "]" * 5000])
def test_a_document_that_contains_itself_or_is_too_deep_is_refused(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(ConfigError, match="nested too deeply") as caught:
        read_document(_written(tmp_path, text), source="a.yaml")
    assert "fix: " in str(caught.value)


def test_a_problem_at_a_replaced_key_is_reported_for_what_replaced_it() -> None:
    option = Origin(source="--option")
    origin = Origin(source="a.yaml", lines={("a",): 1}, replaced={("a", "b"): option})

    def source(*path: str | int) -> str:
        return origin.problem(path, "is wrong", fix="repair it").source

    assert [source("a", "b"), source("a", "b", 0), source("a")] == ["--option"] * 3
    assert [source("a", "c"), source("d"), source()] == ["a.yaml"] * 3


def test_a_part_of_a_part_still_knows_its_line_and_what_is_missing_has_that_of_the_part() -> None:
    lines = {(): 1, ("config",): 1, ("config", "slipway:pools"): 4}
    lines |= {("config", "slipway:pools", "cpu"): 5, ("config", "slipway:pools", "cpu", "nodes"): 6}
    file = Origin(source="a.yaml", lines=lines)
    config = file.under(("config",), namespace="slipway:", rename={"slipway:pools": "pools"})
    pool = config.under(("pools", "cpu"), namespace="", rename={})

    def line(origin: Origin, *path: str) -> int | None:
        return origin.problem(path, "is wrong", fix="repair it").line

    assert [line(config, "pools"), line(config, "pools", "cpu", "nodes")] == [4, 6]
    assert [line(pool, "nodes"), line(pool, "memory"), line(config, "network")] == [6, 5, 1]
