"""The health check of the Nomad Autoscaler's job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from checks import scaling_policies
from served import served

METRICS = "/v1/metrics?format=prometheus"
POLICIES = "/v1/scaling/policies"
NOTHING_ANSWERS = "http://127.0.0.1:1"


class Answers(ThreadingHTTPServer):
    """Nomad and the autoscaler at once, as far as they are asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.enabled = [True, True, False]
        self.metrics = "# TYPE x gauge\nnomad_autoscaler_policy_total_num 2\n"
        self.token = ""


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        found = self.path in (METRICS, POLICIES)
        body = self.server.metrics
        if self.path == POLICIES:
            self.server.token = self.headers["X-Nomad-Token"]
            body = json.dumps([{"Enabled": each} for each in self.server.enabled])
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with served(Answers()) as server:
        monkeypatch.setenv("NOMAD_ADDR", server.address)
        monkeypatch.setenv("NOMAD_TOKEN", "canary")
        yield server


def check(answers: Answers) -> int:
    return scaling_policies.check(answers.address + METRICS)


def test_it_passes_while_every_enabled_policy_is_handled(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(answers) == 0
    assert capsys.readouterr().out == "2 of 2 policies are handled\n"
    assert answers.token == "canary"


@pytest.mark.parametrize("handled", [0, 1])
def test_it_is_critical_when_policies_were_lost(
    answers: Answers, handled: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.metrics = f"nomad_autoscaler_policy_total_num {handled}\n"
    assert check(answers) == 2
    assert capsys.readouterr().out == f"{handled} of 2 policies are handled\n"


def test_a_gauge_that_is_not_there_yet_is_none(answers: Answers) -> None:
    answers.metrics = ""
    assert check(answers) == 2
    answers.enabled = []
    assert check(answers) == 0


def test_an_autoscaler_that_does_not_answer_is_critical(answers: Answers) -> None:
    assert scaling_policies.check(NOTHING_ANSWERS + METRICS) == 2


def test_a_silent_nomad_says_nothing_about_the_autoscaler(
    answers: Answers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOMAD_ADDR", NOTHING_ANSWERS)
    assert check(answers) == 0
    assert capsys.readouterr().out.startswith("unknown: GET http://127.0.0.1:1/v1/scaling/policies")
    assert "canary" not in capsys.readouterr().out
