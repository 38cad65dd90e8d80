"""Pools, and layouts of replicas over their hosts, that tests of several parts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.plan.platform import ModelPlan
from stacks.planning import make_plan
from tests.unit.planner.fleets import H100, engine, fleet

OWNED: dict[str, Any] = {
    "kind": "metal",
    "accelerator": "H100-80",
    "accelerators_per_node": 8,
    "nodes": 4,
    "fabric": "infiniband",
    "network_gbps": 400,
}
FOUR_EACH = OWNED | {"accelerators_per_node": 4, "nodes": 8}
ONE_EACH = OWNED | {"accelerators_per_node": 1, "nodes": 40}
ON_TCP = OWNED | {"fabric": "tcp"}
PLAIN_AWS: dict[str, Any] = {
    "kind": "aws",
    "instance": "g6.xlarge",
    "nodes": {"min": 0, "max": 8},
}
PROCESSORS: dict[str, Any] = {
    "kind": "metal",
    "nodes": 6,
    "memory": "16GiB",
    "cpu": 8,
    "fabric": "roce",
}
EDGE: dict[str, Any] = PROCESSORS | {"nodes": 1, "fabric": "tcp"}
SIM = {
    "kind": "sim",
    "architecture": "llama-3.1-8b",
    "profile": "h100-fp8-llama-3.1-8b",
    "max_num_seqs": 8,
}
SMALL = engine("smollm2-135m", max_model_len=2048, max_num_seqs=8)

# (architecture, pool, parallel, hosts, devices on each)
Planned = tuple[str, Mapping[str, Any], Mapping[str, int], int, int]
POSSIBLE: tuple[Planned, ...] = (
    ("llama-3.1-8b", OWNED, {"tensor": 1}, 1, 1),
    ("llama-3.1-8b", OWNED, {"tensor": 2}, 1, 2),
    ("llama-3.1-8b", OWNED, {"pipeline": 8}, 1, 8),
    ("llama-3.1-8b", OWNED, {"data": 8}, 1, 8),
    ("llama-3.1-8b", OWNED, {"tensor": 2, "pipeline": 2}, 1, 4),
    ("llama-3.1-8b", OWNED, {"tensor": 2, "pipeline": 3}, 1, 6),
    ("llama-3.1-70b", OWNED, {"tensor": 4, "pipeline": 2}, 1, 8),
    ("llama-3.1-70b", OWNED, {"tensor": 4, "data": 2}, 1, 8),
    ("mixtral-8x7b", OWNED, {"tensor": 4, "expert": 4}, 1, 4),
    ("qwen3-30b-a3b", OWNED, {"tensor": 4, "data": 2, "expert": 8}, 1, 8),
    ("llama-3.1-8b", OWNED, {"pipeline": 16}, 2, 8),
    ("llama-3.1-8b", OWNED, {"pipeline": 32}, 4, 8),
    ("llama-3.1-70b", OWNED, {"tensor": 2, "pipeline": 8}, 2, 8),
    ("llama-3.1-70b", OWNED, {"tensor": 4, "pipeline": 4}, 2, 8),
    ("llama-3.1-70b", OWNED, {"tensor": 8, "pipeline": 2}, 2, 8),
    ("llama-3.1-405b", OWNED, {"tensor": 8, "pipeline": 3}, 3, 8),
    ("llama-3.1-405b", OWNED, {"tensor": 8, "pipeline": 4}, 4, 8),
    ("llama-3.1-405b", OWNED | {"fabric": "roce"}, {"tensor": 4, "pipeline": 6}, 3, 8),
    ("llama-3.1-405b", H100, {"tensor": 8, "pipeline": 2}, 2, 8),
    ("llama-3.1-70b", FOUR_EACH, {"tensor": 4, "pipeline": 2}, 2, 4),
    ("llama-3.1-70b", FOUR_EACH, {"tensor": 2, "pipeline": 4}, 2, 4),
    ("llama-3.1-70b", FOUR_EACH, {"tensor": 4, "pipeline": 8}, 8, 4),
    ("llama-3.1-8b", ONE_EACH, {"pipeline": 2}, 2, 1),
    ("llama-3.1-8b", ONE_EACH, {"pipeline": 32}, 32, 1),
    ("deepseek-v3", OWNED | {"accelerator": "H200"}, {"tensor": 8, "pipeline": 2}, 2, 8),
)


def on_processors(kind: Mapping[str, Any], parallel: Mapping[str, int]) -> dict[str, Any]:
    file: dict[str, Any] = {"name": "chat", "engine": dict(kind), "parallel": dict(parallel)}
    loads = {"source": {"s3": "s3://models/chat/", "revision": "1"}}
    return file | (loads if kind["kind"] == "vllm" else {})


def planned_on(file: dict[str, Any], pool: Mapping[str, Any], *, groups: int = 1) -> ModelPlan:
    """On the pool; the gateway has another."""
    edge = dict(EDGE) if pool["kind"] == "metal" else {"kind": "aws", "instance": "m7i.2xlarge"}
    edge |= {} if pool["kind"] == "metal" else {"nodes": {"min": 1, "max": 1}}
    inputs = fleet(
        file,
        pools={"edge": edge, "hosts": dict(pool)},
        deployments={"chat": {"pools": ["hosts"], "replicas": {"min": 1, "max": groups}}},
    )
    (model,) = make_plan(inputs).models
    return model
