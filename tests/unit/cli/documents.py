"""Documents that the platform's parts answer with, as far as commands read them."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.addresses import NETWORK


def plan_document(**gateway: Any) -> dict[str, Any]:
    """The parts of a plan's JSON that commands read; nothing listens at its addresses."""
    return {
        "environment": "dev",
        "gateway": {
            "address": f"{NETWORK}.32",
            "port": 8080,
            "admin_port": 9901,
            "xds_metrics_port": 18001,
            **gateway,
        },
        "monitoring": {"address": f"{NETWORK}.32", "port": 9090},
        "servers": [{"name": "server-0", "address": f"{NETWORK}.2"}],
        "models": [model_document("sim-a", "sim"), model_document("smollm2", "vllm", "small")],
        "node_agent": {"bundle": "node-aaaaaaaaaaaa", "environment": "node-bbbbbbbbbbbb"},
    }


def model_document(name: str, engine: str, *aliases: str) -> dict[str, Any]:
    return {
        "name": name,
        "aliases": list(aliases),
        "job_id": f"model-{name}-3f9c1a",
        "replica": {
            "load_timeout_s": 600,
            "drain_timeout_s": 600,
            "document": {"engine": {"kind": engine}},
        },
    }
