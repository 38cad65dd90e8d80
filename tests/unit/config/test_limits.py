"""Numbers beyond any fleet are refused with their limit, before any loop runs to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from slipway.config.base import PositiveFloat, SizeBytes
from slipway.config.document import Origin
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError, Problem, quoted
from slipway.config.model import parse_model

INFINITE = float("inf")
NAN = float("nan")
LOAD = {"requests_per_s": 2, "input_tokens": 200, "output_tokens": 100}
L4 = {"kind": "aws", "instance": "g6.xlarge", "nodes": {"min": 0, "max": 4}}
OWNED = {"kind": "metal", "accelerator": "L4", "accelerators_per_node": 8, "nodes": 2}
LOCAL = {"kind": "local", "nodes": 1}


def _problem(values: dict[str, Any]) -> Problem:
    """Of an environment, or of a model's file."""
    with pytest.raises(ConfigError) as caught:
        _parse(values)
    (problem,) = caught.value.problems
    return problem


def _parse(values: dict[str, Any]) -> None:
    if "pools" in values:
        parse_environment(values, name="x", source="Pulumi.x.yaml")
    else:
        parse_model(values, origin=Origin(source="models/x.yaml"))


def _model(**changes: Any) -> dict[str, Any]:
    return {"name": "chat", "engine": {"kind": "vllm", "architecture": "phi-4"}} | changes


def _load(**changes: Any) -> dict[str, Any]:
    return _model(load=LOAD | changes)


def _engine(**changes: Any) -> dict[str, Any]:
    return _model(engine={"kind": "vllm", "architecture": "phi-4"} | changes)


def _fleet(pool: dict[str, Any], replicas: Any = None, **changes: Any) -> dict[str, Any]:
    return {
        "target": pool["kind"],
        "network": {"cidr": "10.0.0.0/16"},
        "pools": {"l4": pool},
        "models": {"chat": {"pool": "l4", "replicas": replicas or {"min": 1, "max": 2}}},
        "gateway": {"pool": "l4"},
    } | changes


def _dev(pool: dict[str, Any], replicas: Any = None) -> dict[str, Any]:
    network = {"cidr": "127.77.0.0/24"}
    return _fleet(LOCAL | pool, replicas, target="dev", network=network)


# what is written, then the key and the limit that must be named
TOO_MUCH = {
    "infinite requests": (_load(requests_per_s=INFINITE), "load.requests_per_s", "1000000"),
    "1e308 requests": (_load(requests_per_s=1e308), "load.requests_per_s", "1000000"),
    "10^400 requests": (_load(requests_per_s=10**400), "load.requests_per_s", "1000000"),
    "next to no requests": (_load(requests_per_s=5e-324), "load.requests_per_s", "0.000000001"),
    "requests of a truth": (_load(requests_per_s=True), "load.requests_per_s", "a number"),
    "requests in words": (_load(requests_per_s="many"), "load.requests_per_s", "a number"),
    "10^24 tokens": (_load(input_tokens=10**24), "load.input_tokens", "10000000"),
    "10^24 tokens at p95": (
        _load(output_tokens={"p50": 9, "p95": 10**24}),
        "load.output_tokens.p95",
        "10000000",
    ),
    "an infinite ramp": (
        _load(ramp={"to_requests_per_s": INFINITE, "minutes": 1}),
        "load.ramp.to_requests_per_s",
        "1000000",
    ),
    "a ramp in no time": (
        _load(ramp={"to_requests_per_s": 9, "minutes": 5e-324}),
        "load.ramp.minutes",
        "0.000000001",
    ),
    "a goal of ages": (_model(slo={"ttft_p95_ms": 10**20}), "slo.ttft_p95_ms", "100000000"),
    "a tensor-parallel world": (_model(parallel={"tensor": 2048}), "parallel.tensor", "1024"),
    "a pipeline around it": (_model(parallel={"pipeline": 2048}), "parallel.pipeline", "1024"),
    "experts without end": (_model(parallel={"expert": 2048}), "parallel.expert", "1024"),
    "copies without end": (_model(parallel={"data": 2048}), "parallel.data", "1024"),
    "a replica of all of them": (
        _model(parallel={"tensor": 64, "pipeline": 64}),
        "parallel",
        "4096 devices, but a replica has at most 1024",
    ),
    "sequences without end": (_engine(max_num_seqs=10**20), "engine.max_num_seqs", "100000000"),
    "threads without end": (_engine(threads=10**20), "engine.threads", "10000"),
    "a cache of a million TiB": (_engine(kv_cache="1000000TiB"), "engine.kv_cache", "1024TiB"),
    "a cache of 400 digits": (_engine(kv_cache="9" * 400 + "GiB"), "engine.kv_cache", "1024TiB"),
    "a wait of ages": (_model(timeouts={"load_s": 10**20}), "timeouts.load_s", "604800"),
    "a drain of ages": (
        _model(timeouts={"drain_s": 604_801}),
        "timeouts.drain_s",
        "604800",
    ),
    "more than all memory": (
        _engine(gpu_memory_utilization=INFINITE),
        "engine.gpu_memory_utilization",
        "at most 1",
    ),
    "10^20 replicas": (
        _fleet(L4, {"min": 1, "max": 10**20}),
        "slipway:models.chat.replicas.max",
        "1000",
    ),
    "99999999 replicas here": (
        _dev(LOCAL, {"min": 1, "max": 99999999}),
        "slipway:models.chat.replicas.max",
        "1000",
    ),
    "10^7 nodes": (
        _fleet(L4 | {"nodes": {"max": 10**7}}),
        "slipway:pools.l4.nodes.max",
        "10000",
    ),
    "10^7 nodes at least": (
        _fleet(L4 | {"nodes": {"min": 10**7, "max": 1}}),
        "slipway:pools.l4.nodes.min",
        "10000",
    ),
    "10^7 machines": (_fleet(OWNED | {"nodes": 10**7}), "slipway:pools.l4.nodes", "10000"),
    "a machine full of devices": (
        _fleet(OWNED | {"accelerators_per_node": 10**7}),
        "slipway:pools.l4.accelerators_per_node",
        "1024",
    ),
    "a network without end": (
        _fleet(OWNED | {"network_gbps": INFINITE}),
        "slipway:pools.l4.network_gbps",
        "1000000000",
    ),
    "an infinite price": (
        _fleet(L4 | {"usd_per_hour": INFINITE}),
        "slipway:pools.l4.usd_per_hour",
        "1000000",
    ),
    "no price at all": (
        _fleet(L4 | {"usd_per_hour": NAN}),
        "slipway:pools.l4.usd_per_hour",
        "more than 0",
    ),
    "an infinite budget": (
        _fleet(L4, budget={"usd_per_hour": INFINITE}),
        "slipway:budget.usd_per_hour",
        "1000000",
    ),
    "a node of 10^20 cores": (_dev({"cpu": 10**20}), "slipway:pools.l4.cpu", "10000"),
}


@pytest.mark.parametrize(("values", "key", "limit"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_values_above_a_limit_are_refused_with_the_limit(
    values: dict[str, Any], key: str, limit: str
) -> None:
    problem = _problem(values)
    assert problem.key == key
    assert limit in problem.message
    assert "e+" not in problem.message
    assert problem.value is not None
    assert problem.fix


POSITIVE = TypeAdapter(PositiveFloat)


@given(st.floats() | st.integers() | st.just(10**400))
def test_a_number_that_is_taken_can_be_divided_by_and_multiplied(value: float) -> None:
    try:
        taken = POSITIVE.validate_python(value)
    except ValidationError:
        return
    assert 0 < 1 / taken < INFINITE
    assert 0 < taken**10 < INFINITE


@pytest.mark.parametrize(
    ("text", "size"), [("1024TiB", 2**50), ("90000GiB", 90_000 * 2**30), ("0.5KiB", 512)]
)
def test_a_size_within_the_limit_is_taken(text: str, size: int) -> None:
    assert TypeAdapter(SizeBytes).validate_python(text) == size


def test_a_number_too_long_for_python_to_print_is_still_reported() -> None:
    assert quoted(0x10**5000) == "a value too long to show"
