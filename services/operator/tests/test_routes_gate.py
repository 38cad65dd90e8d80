"""The gate of the routes: what it waits for, and what it says when it cannot see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from gates import gateway, routes
from hangs import HANG_S
from program.errors import HostError, InputError
from program.http_json import Api
from served import served

NEW = {"tiny": ["model-tiny-new"], "big": ["model-big-1"]}
OLD = {"tiny": ["model-tiny-old"], "big": ["model-big-1"]}
WANTED = {model: set(services) for model, services in NEW.items()}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "ASK_TIMEOUT_S", HANG_S)


class Answers(ThreadingHTTPServer):
    """Answers every GET with the document it has at the moment; None: 404."""

    def __init__(self, document: Any = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.document = document

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def connect(self, *envoys: tuple[str, Any]) -> None:
        entries = [{"node": node, "routes": acknowledged} for node, acknowledged in envoys]
        self.document = {"schema_version": 1, "envoys": entries}


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        found = self.server.document is not None
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.document).encode() if found else b"no such page")

    def log_message(self, *_: object) -> None:
        pass


def registered(*ports: int) -> list[dict[str, Any]]:
    """What Consul says of control planes; the second and later ones have their node's address."""
    return [
        {
            "Node": {"Address": "127.0.0.1"},
            "Service": {"Address": "127.0.0.1" if at == 0 else "", "Port": port},
        }
        for at, port in enumerate(ports)
    ]


@contextmanager
def gate_of(*control_planes: Answers, envoys: int = 1) -> Iterator[routes.Gate]:
    consul = Answers(registered(*(each.server_port for each in control_planes)))
    with ExitStack() as running:
        for server in (consul, *control_planes):
            running.enter_context(served(server))
        yield routes.Gate(WANTED, envoys, deadline_s=60, consul=Api(consul.url, timeout_s=HANG_S))


def missing(*control_planes: Answers, envoys: int = 1) -> str | None:
    with gate_of(*control_planes, envoys=envoys) as gate:
        return routes.missing(gate)


def answers(*envoys: tuple[str, Any]) -> Answers:
    server = Answers()
    server.connect(*envoys)
    return server


def test_it_opens_when_every_envoy_of_every_control_plane_has_the_wanted_routes() -> None:
    assert missing(answers(("a", NEW)), answers(("b", NEW)), envoys=2) is None


def test_it_waits_for_the_one_envoy_that_still_has_the_old_route() -> None:
    said = missing(answers(("a", NEW)), answers(("b", OLD)), envoys=2)
    assert said == "Envoy b still sends tiny to model-tiny-old"


def test_several_models_behind_are_counted() -> None:
    said = missing(answers(("a", {"tiny": ["model-tiny-old", "model-tiny-new"]})))
    assert said == "Envoy a still sends big to no service; 2 models lag"


def test_an_envoy_with_unknown_routes_is_waited_for() -> None:
    assert missing(answers(("a", None))) == "Envoy a has not acknowledged its routes yet"


def test_both_streams_of_an_envoy_that_is_connecting_again_count() -> None:
    assert missing(answers(("a", NEW), ("a", OLD))) == "Envoy a still sends tiny to model-tiny-old"


@pytest.mark.parametrize("connected", [[], [("a", NEW)], [("a", NEW), ("a", NEW)]])
def test_it_waits_until_as_many_envoys_as_expected_are_connected(connected: list[Any]) -> None:
    count = len(dict(connected))
    expected = f"{count} of 2 Envoys are connected to a control plane"
    assert missing(answers(*connected), envoys=2) == expected


def test_without_a_control_plane_no_envoy_is_seen() -> None:
    assert missing() == "0 of 1 Envoys are connected to a control plane"


def test_a_model_that_is_about_to_be_removed_does_not_matter() -> None:
    assert missing(answers(("a", {**NEW, "gone": ["model-gone-1"]}))) is None


def test_a_control_plane_that_does_not_know_the_question_is_waited_for() -> None:
    """One of before, until its job has been updated."""
    said = missing(answers(("a", NEW)), Answers())
    assert said is not None
    assert "/acknowledged: HTTP 404 no such page" in said


def test_a_control_plane_that_answers_in_another_version_is_named() -> None:
    newer = Answers({"schema_version": 7, "envoys": []})
    assert str(missing(newer)).endswith("answers in schema_version 7")


def test_a_consul_that_does_not_answer_is_waited_for() -> None:
    with gate_of(answers(("a", NEW))) as gate:
        said = routes.missing(replace(gate, consul=Api("http://127.0.0.1:1")))
    assert said is not None
    assert "Connection refused" in said


@pytest.mark.usefixtures("clock")
def test_at_its_deadline_it_fails_with_the_last_thing_seen_and_says_what_to_do() -> None:
    with gate_of(answers(("a", OLD))) as gate, pytest.raises(HostError) as failure:
        routes.apply(gate)
    lines = str(failure.value).splitlines()
    assert lines[0] == "routes: gave up after 60 s: Envoy a still sends tiny to model-tiny-old"
    assert lines[1] == "Nothing was removed: the old replicas keep running."
    assert lines[2].startswith("fix: slipway status")


def test_it_says_that_it_opened(capsys: pytest.CaptureFixture[str]) -> None:
    with gate_of(answers(("a", NEW))) as gate:
        routes.apply(gate)
    assert capsys.readouterr().out.startswith("routes: 1 of 1 Envoys have acknowledged them, ")


DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "consul": "http://127.0.0.1:1",
    "routes": NEW,
    "envoys": 2,
    "deadline_s": 60,
}
SECRETS = {"schema_version": 1, "nomad_token": "canary", "consul_token": "canary"}


def test_a_document_becomes_a_gate() -> None:
    gate = routes.read_gate(DOCUMENT, SECRETS)
    assert (gate.routes, gate.envoys, gate.deadline_s) == (WANTED, 2, 60)
    assert gate.consul.address == "http://127.0.0.1:1"


@pytest.mark.parametrize("missing", ["consul", "routes", "envoys", "deadline_s"])
def test_a_document_that_does_not_follow_its_schema_is_refused(missing: str) -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != missing}
    with pytest.raises(InputError, match=r"schemas/routes-gate\.schema\.json"):
        routes.read_gate(document, SECRETS)
