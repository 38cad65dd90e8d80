"""Why a replica does not stay up, derived from its tasks in Nomad."""

from __future__ import annotations

from typing import Any

import pytest
from gates.task_failure import failing_task, last_end, last_words
from program.http_json import Api, ApiError


def ended(time: int, code: int) -> dict[str, Any]:
    return {"Type": "Terminated", "Time": time, "DisplayMessage": f"Exit Code: {code}"}


ALLOCATION: dict[str, Any] = {
    "ID": "8d1e",
    "NodeName": "cpu-0",
    "TaskStates": {
        "server": {"State": "pending", "Restarts": 0, "Events": None},
        "weights": {
            "State": "pending",
            "Restarts": 3,
            "Events": [ended(1, 1), ended(3, 2), {"Type": "Restarting", "Time": 4}],
        },
    },
}


class Logs(Api):
    """Nomad's answer to a question for a log."""

    def __init__(self, answer: str | None) -> None:
        super().__init__("http://127.0.0.1:1")
        self._answer = answer
        self.asked = ""

    def text(self, path: str) -> str:
        self.asked = path
        if self._answer is None:
            raise ApiError("no such task", 404)
        return self._answer


def test_the_step_before_the_server_is_named_when_it_is_the_one_that_ends() -> None:
    assert failing_task(ALLOCATION) == "weights"
    assert last_end(ALLOCATION, "weights") == "Exit Code: 2"
    assert last_end(ALLOCATION, "server") == "pending"


def test_its_last_words_are_the_last_lines_of_its_stderr() -> None:
    nomad = Logs("\n".join(f"line {number}\n" for number in range(30)))
    words = last_words(ALLOCATION, "weights", nomad).splitlines()
    assert words == [f"    line {number}" for number in range(20, 30)]
    assert "/logs/8d1e?task=weights&type=stderr" in nomad.asked


@pytest.mark.parametrize("answer", [None, ""])
def test_a_task_without_output_leaves_none(answer: str | None) -> None:
    assert last_words(ALLOCATION, "weights", Logs(answer)) == ""
