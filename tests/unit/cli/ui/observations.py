"""Observations of a platform with the models of documents.plan_document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cli.applied import Applied, from_document
from cli.clusters.served import Served
from cli.ui.observation import JobCount, Observation, ScalingEvent
from slipway.plan.platform import LatencyGoal, ScalingSpec
from tests.unit.cli.documents import plan_document

NOW_S = 1_000_000.0
STATUS: Mapping[str, Any] = {
    "schema_version": 1,
    "environment": "dev",
    "running": True,
    "gateway": {"http": "http://gateway:8080", "grpc": "gateway:8080"},
    "models": {
        "sim-a": {"ready": True, "acknowledged": True},
        "smollm2": {"ready": True, "acknowledged": True},
    },
    "nodes": [
        {"name": "cpu-0", "pool": "cpu", "address": "10.0.0.1", "status": "ready", "eligible": True}
    ],
    "jobs": [{"id": "model-sim-a-3f9c1a", "status": "running", "running": 1, "waiting": 0}],
    "replicas": [
        {
            "job": "model-sim-a-3f9c1a",
            "name": "model-sim-a-3f9c1a.replica[0]",
            "node": "cpu-0",
            "allocation": "4bb239af-9046-626d-80b7-64d20ed6f23f",
            "status": "running",
            "restarts": 0,
            "said": "Task started by client",
        }
    ],
    "groups": [],
    "endpoints": [
        {
            "cluster": "model-sim-a-3f9c1a-openai",
            "address": "10.0.0.1:20000",
            "healthy": True,
            "active_requests": 3,
        },
        {
            "cluster": "model-sim-a-all-grpc",
            "address": "10.0.0.1:20001",
            "healthy": True,
            "active_requests": 2,
        },
        {"cluster": "xds", "address": "10.0.0.1:18000", "healthy": True, "active_requests": 9},
    ],
    "targets": [],
    "troubles": [],
    "autoscaler_blind": "",
    "unreachable": {},
}
SCALING = ScalingSpec(min_replicas=1, max_replicas=4, target_inflight_per_replica=4, cooldown_s=60)
GOAL = LatencyGoal(ttft_p95_ms=500, tpot_p95_ms=None)


def applied() -> Applied:
    found = from_document(plan_document())
    models = (dataclasses.replace(each, scaling=SCALING, goal=GOAL) for each in found.models)
    return dataclasses.replace(found, models=tuple(models))


def count(
    model: str = "sim-a", *, wanted: int = 1, events: tuple[ScalingEvent, ...] = ()
) -> JobCount:
    return JobCount(
        job=f"model-{model}-3f9c1a",
        model=model,
        submitted_s=NOW_S - 7200,
        wanted=wanted,
        events=events,
    )


def scaled(previous: int, to: int | None, *, ago_s: float, said: str = "") -> ScalingEvent:
    return ScalingEvent(at_s=NOW_S - ago_s, count=to, previous=previous, said=said, failed=False)


def observation(
    status: Mapping[str, Any] = STATUS,
    *,
    counts: tuple[JobCount, ...] = (count(),),
    served: Mapping[str, Served] | None = None,
) -> Observation:
    return Observation(
        at_s=NOW_S,
        applied=applied(),
        status=status,
        served=served or {},
        counts=counts,
        submitted={each.job: each.submitted_s for each in counts},
    )
