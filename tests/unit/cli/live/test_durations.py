from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.live.durations import KEPT, SHIPPED, Durations
from slipway.config.artifacts import REQUIREMENTS
from toolchain.pins import tool_pins

BUILD = "nomad building"


def tables() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(SHIPPED.read_text())
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "durations.json"


@pytest.fixture
def durations(file: Path) -> Callable[[], Durations]:
    return lambda: Durations(lambda: file)


def test_the_last_time_counts_else_the_shipped_table(durations: Callable[[], Durations]) -> None:
    nomad = tool_pins()["nomad"].module
    assert nomad is not None
    assert durations().expected_s(BUILD) == nomad.build_s > 0
    vllm = "vllm installing"
    (shipped,) = [table["seconds"][vllm] for table in tables() if vllm in table["seconds"]]
    assert durations().expected_s(vllm) == shipped
    assert durations().expected_s("another building") is None
    durations().keep({BUILD: 12.34})
    durations().keep({"another building": 3.0})
    assert durations().expected_s(BUILD) == 12.3
    assert durations().expected_s("another building") == 3.0


def test_what_was_there_already_says_nothing_of_the_next_time(
    durations: Callable[[], Durations], file: Path
) -> None:
    durations().keep({BUILD: 0.1})
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seconds": [1]}', '{"seconds": {"a": "b"}}'])
def test_an_unreadable_file_is_as_good_as_none_and_is_written_again(
    text: str, durations: Callable[[], Durations], file: Path
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert durations().expected_s("a") is None
    durations().keep({"a": 5.0})
    assert durations().expected_s("a") == 5.0
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # nothing half-written


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Durations(lambda: tmp_path / "file" / "durations.json").keep({"a": 5.0})


def test_the_oldest_are_forgotten(durations: Callable[[], Durations], file: Path) -> None:
    for begins in (0, KEPT):
        durations().keep({str(number): 5.0 for number in range(begins, begins + KEPT)})
    assert list(json.loads(file.read_text())["seconds"]) == [
        str(number) for number in range(KEPT, 2 * KEPT)
    ]


def test_the_shipped_tables_have_what_is_installed_their_dates_and_their_machines() -> None:
    """How long builds take is in the pins alone."""
    keys = [key for table in tables() for key in table["seconds"]]
    assert set(keys) <= {f"{name} installing" for name in (*REQUIREMENTS, "envoy")}
    assert len(keys) == len(set(keys))
    for table in tables():
        datetime.date.fromisoformat(table["measured"])
        assert "2 cores" in table["machine"]
