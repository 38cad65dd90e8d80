"""The document of a model's gate: its protocols, and which jobs count as predecessors."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from cluster import BEFORE
from gates.model import other_jobs, read_gate
from gates.model_job import ModelJob
from program.errors import InputError
from program.http_json import Api

SECRETS = {"schema_version": 1, "nomad_token": "canary", "consul_token": "canary"}
DOCUMENT: dict[str, Any] = {
    "schema_version": 2,
    "model": "m",
    "release": "stable",
    "job_id": "model-m-1",
    "service": "model-m-1",
    "surge": None,
    "min_replicas": 1,
    "max_replicas": 2,
    "deadline_s": 60,
    "nomad": "http://127.0.0.1:1",
    "consul": "http://127.0.0.1:1",
}


@pytest.mark.parametrize(
    ("protocols", "services"),
    [
        (["http"], ("model-m-1-openai",)),
        (["grpc"], ("model-m-1-grpc",)),
        (["http", "grpc"], ("model-m-1-openai", "model-m-1-grpc")),
    ],
)
def test_each_protocol_is_waited_for_at_its_service(
    protocols: list[str], services: tuple[str, ...]
) -> None:
    assert read_gate(DOCUMENT | {"protocols": protocols}, SECRETS).services == services


def test_a_document_of_before_means_both_protocols_and_the_stable_release() -> None:
    before = json.loads((BEFORE / "model-sim-ready.json").read_text())
    gate = read_gate(before, SECRETS)
    assert gate.release == "stable"
    assert gate.services == ("model-sim-all-openai", "model-sim-all-grpc")


@pytest.mark.parametrize(
    "wrong", [{"protocols": ["soap"]}, {"surge": ...}, {"min_replicas": ...}, {"consul": ...}]
)
def test_a_document_that_does_not_follow_its_schema_is_refused(wrong: dict[str, Any]) -> None:
    document = {key: value for key, value in (DOCUMENT | wrong).items() if value is not ...}
    with pytest.raises(InputError, match=r"schemas/model-gate\.schema\.json"):
        read_gate(document, SECRETS)


class Nomad(Api):
    """Knows jobs by their meta; all of them run."""

    def __init__(self, jobs: dict[str, dict[str, str] | None]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._jobs = jobs

    def get(self, path: str) -> Any:
        if path == "/v1/jobs?meta=true":
            return [
                {"ID": name, "Meta": meta, "Stop": False, "Status": "running"}
                for name, meta in self._jobs.items()
            ]
        return [] if path.endswith("/allocations") else {"TaskGroups": [{"Name": "replica"}]}


@pytest.mark.parametrize(
    ("release", "predecessors"),
    [
        ("stable", {"model-m-0", "model-m-named"}),
        ("canary", {"model-m-canary"}),
    ],
)
def test_only_jobs_of_the_same_release_are_predecessors(
    release: str, predecessors: set[str]
) -> None:
    nomad = Nomad(
        {
            "model-m-0": {"slipway_model": "m"},  # jobs of before name no release
            "model-m-named": {"slipway_model": "m", "slipway_release": "stable"},
            "model-m-canary": {"slipway_model": "m", "slipway_release": "canary"},
            "model-m-1": {"slipway_model": "m", "slipway_release": release},
            "model-n-0": {"slipway_model": "n"},
            "envoy": None,
        }
    )
    gate = read_gate(DOCUMENT | {"release": release}, SECRETS)
    job = ModelJob("model-m-1", nomad)
    found = other_jobs(dataclasses.replace(gate, nomad=nomad, job=job))
    assert {each.id for each in found} == predecessors
