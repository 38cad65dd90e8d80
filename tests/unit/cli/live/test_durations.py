from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.live.durations import KEPT, SHIPPED, Durations
from toolchain.pins import tool_pins

BUILD = "nomad building"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "durations.json"


@pytest.fixture
def durations(file: Path) -> Callable[[], Durations]:
    return lambda: Durations(lambda: file)


def test_the_last_time_counts_else_the_shipped_table(durations: Callable[[], Durations]) -> None:
    shipped = json.loads(SHIPPED.read_text())["seconds"]
    assert durations().expected_s(BUILD) == shipped[BUILD]
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


def test_the_shipped_table_names_tools_its_date_and_its_machine() -> None:
    shipped = json.loads(SHIPPED.read_text())
    built = {name for name, pin in tool_pins().items() if pin.module is not None}
    assert set(shipped["seconds"]) == {f"{name} building" for name in built}
    assert shipped["measured"].count("-") == 2
    assert "cores" in shipped["machine"]
