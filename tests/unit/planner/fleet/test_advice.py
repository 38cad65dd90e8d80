"""A model that no pool can run gets advice that helps, by the kind of the reason."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.errors import ConfigError, Problem
from slipway.config.what_if import parse_change
from slipway.inputs import load_inputs
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT
from tests.unit.planner.fleets import H100, L4, L40S, engine, fleet, model_file

TRAINIUM = {"kind": "aws", "instance": "trn1.32xlarge", "nodes": {"max": 4}}
ONE_NODE = H100 | {"nodes": {"max": 1}}


def _problem(
    architecture: str, pools: dict[str, Any], parallel: dict[str, int] | None = None, **changes: Any
) -> Problem:
    file = model_file(engine=engine(architecture, **changes))
    file |= {"parallel": parallel} if parallel else {}
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(file, pools=pools))
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("architecture", "pools", "parallel", "sizes"),
    [
        ("phi-4", {"h100": H100}, {"tensor": 3}, (1, 2)),
        ("llama-3.1-70b", {"h100": H100}, {"tensor": 1}, (2, 4, 8)),
        ("llama-3.1-70b", {"l4": L4, "h100": H100}, {"tensor": 16}, (2, 4, 8)),
        ("qwen3-30b-a3b", {"h100": H100}, {"tensor": 3, "data": 2, "expert": 6}, (1, 2, 4)),
    ],
)
def test_the_tensor_sizes_that_are_advised_are_all_that_help(
    architecture: str, pools: dict[str, Any], parallel: dict[str, int], sizes: tuple[int, ...]
) -> None:
    *others, last = map(str, sizes)
    fix = _problem(architecture, pools, parallel).fix
    assert fix.startswith(f"use {', '.join(others)} or {last} for `parallel.tensor`")
    assert ("tensor x data for `parallel.expert`" in fix) is ("expert" in parallel)
    for size in sizes:
        layout = parallel | {"tensor": size}
        layout |= {"expert": size * parallel["data"]} if "expert" in parallel else {}
        (model,) = make_plan(
            fleet(model_file(engine=engine(architecture), parallel=layout), pools=pools)
        ).models
        assert model.layout.tensor == size


def test_a_layout_that_the_engine_refuses_gets_valid_ones_even_where_memory_is_short() -> None:
    fix = _problem("llama-3.1-405b", {"l40s": L40S}, {"tensor": 3}).fix
    assert fix == "use 1, 2 or 4 for `parallel.tensor` in models/chat.yaml"


def test_too_little_memory_in_every_layout_needs_larger_devices_or_a_smaller_model() -> None:
    few = L40S | {"nodes": {"max": 4}}
    fix = _problem("llama-3.1-405b", {"l40s": few}).fix
    assert fix.startswith("name a pool with larger or more accelerators, split the model")


def test_an_accelerator_that_is_not_served_needs_another_one_and_no_other_layout() -> None:
    assert _problem("phi-4", {"trn": TRAINIUM}).fix == "name a pool with other accelerators"


def test_a_precision_that_no_device_of_the_pools_runs_needs_others_or_another_precision() -> None:
    turing = {"kind": "aws", "instance": "g4dn.12xlarge", "nodes": {"max": 4}}
    fix = _problem("llama-3.1-8b", {"t4": turing}, kv_cache_dtype="fp8").fix
    assert fix.startswith("name a pool with other accelerators, or change the precision")


def test_models_that_fit_alone_but_not_together_need_room() -> None:
    big: dict[str, Any] = {"engine": engine("llama-3.1-70b"), "parallel": {"tensor": 8}}
    two = [model_file() | big | {"name": name} for name in ("one", "two")]
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(*two, pools={"h100": ONE_NODE}))
    (problem,) = caught.value.problems
    assert problem.key == "slipway:models.two.pools"
    assert problem.fix == "add `nodes` to a pool, lower `replicas.min`, or name another pool"


@pytest.mark.parametrize("change", ["parallel.tensor=3", "engine.max_model_len=16385"])
def test_a_model_that_only_fits_without_a_what_if_is_a_mistake_of_that_key(change: str) -> None:
    key, _, _ = change.partition("=")
    changes = [f"models.phi-4.{change}", "models.phi-4.pools=[l4]"]
    inputs = load_inputs(ROOT, "aws", changes=[parse_change(text) for text in changes])
    with pytest.raises(ConfigError) as caught:
        make_plan(inputs)
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("--what-if", f"models.phi-4.{key}")


def test_a_model_too_large_for_a_host_is_told_how_it_fits_on_several() -> None:
    file = model_file(engine=engine("llama-3.1-405b"))
    fix = _problem("llama-3.1-405b", {"h100": H100}).fix
    assert fix == (
        "set `parallel: {tensor: 8, pipeline: 2}` in models/chat.yaml: it fits on 2 hosts of pool"
        " h100"
    )
    split = file | {"parallel": {"tensor": 8, "pipeline": 2}}
    (model,) = make_plan(fleet(split, pools={"h100": H100})).models
    assert (model.replica.nodes, model.replica.devices) == (2, 8)


def test_hosts_whose_fabric_carries_no_pipeline_are_not_advised_to_share_a_model() -> None:
    owned = {"kind": "metal", "accelerator": "H100-80", "accelerators_per_node": 8, "nodes": 4}
    for fabric, advised in (("infiniband", True), ("roce", True), ("tcp", False)):
        fix = _problem("llama-3.1-405b", {"own": owned | {"fabric": fabric}}).fix
        assert ("it fits on 2 hosts of pool own" in fix) is advised


def test_a_pool_with_a_single_host_is_not_advised_to_use_two() -> None:
    assert "hosts of pool" not in _problem("llama-3.1-405b", {"h100": ONE_NODE}).fix
