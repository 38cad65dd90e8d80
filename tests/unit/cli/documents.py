"""The platform's documents, as far as commands read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from tests.unit.cli.addresses import NETWORK
from tests.unit.plan.samples import ROOT

# What the control plane of ceea46c answers to GET /status: `tiny` is served, `broken` is refused.
STATUS_OF_BEFORE = Path(__file__).parent / "status_of_before.json"
STATUS_SCHEMA = json.loads((ROOT / "schemas/status.schema.json").read_text())


def plan_document(
    *, gateway: str = f"{NETWORK}.32:8080", envoy_metrics: str = f"{NETWORK}.32:9901"
) -> dict[str, Any]:
    """The parts of a plan's JSON that commands read; nothing listens at its addresses."""
    return {
        "schema_version": 5,
        "environment": "dev",
        "gateway": {
            "clients": _endpoint(gateway),
            "envoys": [
                {
                    "metrics": _endpoint(envoy_metrics),
                    "xds_http": _endpoint(f"{NETWORK}.32:18001"),
                }
            ],
        },
        "monitoring": {"prometheus": _endpoint(f"{NETWORK}.32:9090")},
        "consul": _endpoint(f"{NETWORK}.2:8500"),
        "nomad": _endpoint(f"{NETWORK}.2:4646"),
        "servers": [{"name": "server-0", "address": f"{NETWORK}.2"}],
        "pools": [],
        "models": [model_document("sim-a", "sim"), model_document("smollm2", "vllm", "small")],
        "node_agent": {"bundle": "host-aaaaaaaaaaaa", "environment": "node-bbbbbbbbbbbb"},
    }


def _endpoint(authority: str) -> dict[str, Any]:
    host, _, port = authority.rpartition(":")
    return {"scheme": "http", "host": host, "port": int(port), "server_name": "", "ca": ""}


def model_document(name: str, engine: str, *aliases: str) -> dict[str, Any]:
    return {
        "name": name,
        "aliases": list(aliases),
        "protocols": ["http", "grpc"],
        "releases": [{"name": "stable", "job_id": f"model-{name}-3f9c1a"}],
        "replica": {
            "load_timeout_s": 600,
            "drain_timeout_s": 600,
            "document": {"engine": {"kind": engine}},
        },
    }


def status_document(
    models: Mapping[str, Mapping[str, bool]], *, envoys: tuple[str, ...] = ("gateway-edge-0",)
) -> dict[str, Any]:
    """The control plane's answer to GET /status; `models` say what differs from a ready one."""
    document = json.loads(STATUS_OF_BEFORE.read_text())
    (ready,), (envoy,) = document["models"].values(), document["envoys"]
    document["models"] = {name: ready | state for name, state in models.items()}
    document["envoys"] = [envoy | {"node": node} for node in envoys]
    jsonschema.validate(document, STATUS_SCHEMA)
    return dict(document)
