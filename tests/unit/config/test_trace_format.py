"""What counts as a trace line: the schema, the planner's reader and the replay's agree.

services/fleet_replay/tests/test_trace.py reads the same lines.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slipway.config.document import Origin
from slipway.config.errors import ConfigError
from slipway.config.load import Load, TracedLoad
from slipway.config.trace import read_trace

SCHEMAS = Path(__file__).parents[3] / "schemas"
LINES = json.loads((SCHEMAS / "trace.lines.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "trace.schema.json").read_text()))
OTHER = '{"timestamp": 0, "input_length": 1, "output_length": 1}'  # a load needs two requests


def _read(folder: Path, line: str) -> Load:
    path = folder / "trace.jsonl"
    path.write_text(f"{line}\n{OTHER}\n")
    return read_trace(path, TracedLoad(trace="day.jsonl"), Origin(source="models/chat.yaml"))


def _not_json(constant: str) -> Any:
    raise ValueError(constant)  # NaN and Infinity, which Python would read


@pytest.mark.parametrize("line", LINES["requests"])
def test_the_schema_and_the_planner_accept_a_request(tmp_path: Path, line: str) -> None:
    VALIDATOR.validate(json.loads(line))
    assert _read(tmp_path, line).source.endswith("2 requests")


@pytest.mark.parametrize("line", LINES["broken"], ids=lambda line: line[:60])
def test_the_schema_and_the_planner_refuse_a_broken_line(tmp_path: Path, line: str) -> None:
    with suppress(ValueError, RecursionError):  # not even JSON
        assert not VALIDATOR.is_valid(json.loads(line, parse_constant=_not_json))
    with pytest.raises(ConfigError, match="1 of 2 lines are broken"):
        _read(tmp_path, line)
