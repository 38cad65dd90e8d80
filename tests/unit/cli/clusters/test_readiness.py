"""Waiting until the platform answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest

from cli.applied import from_document
from cli.clusters import readiness
from cli.clusters.nomad import Nomad
from cli.errors import CliError
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import (
    STATUS_OF_BEFORE,
    STATUS_SCHEMA,
    model_document,
    plan_document,
    status_document,
)
from tests.waiting import HANG_S

GIVEN_S = 0.1


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "POLL_S", 0.02)


def test_models_are_waited_for_until_the_deadline_and_the_last_state_is_reported(
    serve: Serve,
) -> None:
    applied = from_document(plan_document())
    with pytest.raises(CliError, match=r"the control plane at http://127\.96\.\d+\.32"):
        readiness.wait_for_models(applied, timeout_s=GIVEN_S)
    not_ready = {"smollm2": {}, "sim-a": {"ready": False}}
    answer: list[Any] = [200, status_document(not_ready, envoys=())]
    serve({"GET /status": answer}, address=f"{NETWORK}.32", port=18001)
    with pytest.raises(CliError, match="slipway logs envoy"):
        readiness.wait_for_models(applied, timeout_s=GIVEN_S)
    answer[1] = status_document(not_ready)
    with pytest.raises(CliError, match=r"sim-a \(its replicas\)"):
        readiness.wait_for_models(applied, timeout_s=GIVEN_S)
    answer[1] = status_document({"smollm2": {}, "sim-a": {}})
    readiness.wait_for_models(applied, timeout_s=GIVEN_S)


def test_a_control_plane_of_before_is_understood(serve: Serve) -> None:
    before = json.loads(STATUS_OF_BEFORE.read_text())
    jsonschema.validate(before, STATUS_SCHEMA)
    document = plan_document()
    document["models"] = [model_document("tiny", "sim")]
    serve({"GET /status": (200, before)}, address=f"{NETWORK}.32", port=18001)
    readiness.wait_for_models(from_document(document), timeout_s=GIVEN_S)


@pytest.mark.parametrize("version", [2, None])
def test_an_answer_of_another_version_is_refused_at_once(serve: Serve, version: int | None) -> None:
    answer = status_document({"smollm2": {}}) | {"schema_version": version}
    serve({"GET /status": (200, answer)}, address=f"{NETWORK}.32", port=18001)
    with pytest.raises(CliError, match=f"/status answers in schema_version {version}") as refused:
        readiness.wait_for_models(from_document(plan_document()), timeout_s=HANG_S)
    assert "use the checkout that brought this environment up" in refused.value.fix


def test_a_cluster_without_a_leader_is_waited_for_until_the_deadline(serve: Serve) -> None:
    leader: list[object] = [200, b'""']
    server = serve({"GET /v1/status/leader": leader})
    with Nomad.of_any([server.address], None, Path()) as nomad:
        with pytest.raises(CliError, match="no leader"):
            readiness.wait_for_leader(nomad, timeout_s=GIVEN_S)
        leader[1] = b'"127.96.0.2:4647"'
        readiness.wait_for_leader(nomad, timeout_s=GIVEN_S)


def test_nomad_is_asked_for_a_leader_again() -> None:
    nomad = mock.Mock(spec=Nomad)
    nomad.has_leader.side_effect = [False, False, True]
    readiness.wait_for_leader(nomad, timeout_s=HANG_S)
    assert nomad.has_leader.call_count == 3
