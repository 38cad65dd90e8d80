"""Environments of accelerators with the real catalog: pools and models to vary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.config.catalog import load_catalog
from slipway.config.document import Origin
from slipway.config.environment import parse_environment
from slipway.config.load import Load
from slipway.config.model import parse_model
from slipway.inputs import PlanInputs
from tests.unit.plan.samples import ARTIFACTS, MACHINE, ROOT

CATALOG = load_catalog(ROOT)
H100 = {"kind": "aws", "instance": "p5.48xlarge", "nodes": {"min": 0, "max": 4}}
L40S = {"kind": "aws", "instance": "g6e.12xlarge", "nodes": {"min": 0, "max": 8}}
L4 = {"kind": "aws", "instance": "g6.xlarge", "nodes": {"min": 0, "max": 8}}
OWNED = {"kind": "metal", "accelerator": "H100-80", "accelerators_per_node": 8, "nodes": 2}


def model_file(architecture: str = "llama-3.1-8b", **changes: Any) -> dict[str, Any]:
    """A model with a load and a goal; `changes` replace top-level keys."""
    return {
        "name": "chat",
        "source": {"s3": "s3://models/chat/", "revision": "1"},
        "engine": engine(architecture),
        "slo": {"ttft_p95_ms": 1000, "tpot_p95_ms": 50},
        "load": {"requests_per_s": 4, "input_tokens": 800, "output_tokens": 200},
    } | changes


def engine(architecture: str = "llama-3.1-8b", **changes: Any) -> dict[str, Any]:
    sizes = {"max_model_len": 8192, "max_num_seqs": 64}
    return {"kind": "vllm", "architecture": architecture} | sizes | changes


def fleet(
    *models: Mapping[str, Any],
    pools: Mapping[str, Any] | None = None,
    replicas: Mapping[str, int] | None = None,
    deployments: Mapping[str, Any] | None = None,
    traces: Mapping[str, Load] | None = None,
    **changes: Any,
) -> PlanInputs:
    """Every model may run on every pool, from 1 to 8 replicas, unless `deployments` says more."""
    pools = pools or {"h100": H100}
    parsed = {
        model["name"]: parse_model(model, origin=Origin(source=f"models/{model['name']}.yaml"))
        for model in models or (model_file(),)
    }
    deployed = {
        name: {"pools": list(pools), "replicas": dict(replicas or {"min": 1, "max": 8})}
        | (deployments or {}).get(name, {})
        for name in parsed
    }
    values = {
        "target": "metal" if next(iter(pools.values()))["kind"] == "metal" else "aws",
        "network": {"cidr": "10.40.0.0/16"},
        "pools": dict(pools),
        "models": deployed,
        "gateway": {"pool": next(iter(pools))},
    } | changes
    return PlanInputs(
        environment=parse_environment(values, name="fleet", source="Pulumi.fleet.yaml"),
        models=parsed,
        catalog=CATALOG,
        artifacts=ARTIFACTS,
        machine=MACHINE,
        traces=traces or {},
    )
