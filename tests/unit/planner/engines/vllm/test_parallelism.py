from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import LatentAttention, MixtureOfExperts
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.parallelism import (
    expert_slices,
    layout_problems,
    stage_layers,
)
from tests.unit.planner.architectures import MODELS, made_up


def _problems(
    model: str, layout: Layout, *, weights: str = "bf16", devices_per_node: int = 8
) -> tuple[str, ...]:
    precision = Precision(weights=weights)
    return layout_problems(MODELS[model], layout, precision, devices_per_node=devices_per_node)


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        ("llama-3.1-8b", [1, 2, 4, 8]),
        ("llama-3.1-70b", [1, 2, 4, 8]),
        ("llama-3.3-70b", [1, 2, 4, 8]),
        ("llama-3.1-405b", [1, 2, 4, 8]),
        ("qwen2.5-7b", [1, 2, 4]),
        ("qwen2.5-vl-7b", [1, 2, 4]),
        ("qwen2.5-32b", [1, 2, 4, 8]),
        ("qwen2.5-72b", [1, 2, 4, 8]),
        ("qwen3-8b", [1, 2, 4, 8]),
        ("qwen3-32b", [1, 2, 4, 8]),
        ("qwen3-30b-a3b", [1, 2, 4, 8]),
        ("mistral-7b", [1, 2, 4, 8]),
        ("mixtral-8x7b", [1, 2, 4, 8]),
        ("phi-4", [1, 2]),
        ("gemma-2-9b", [1, 2, 4, 8]),
        ("gemma-2-27b", [1, 2, 4, 8]),
        ("gemma-3-12b", [1, 2, 4, 8]),
        ("gemma-3-27b", [1, 2, 4, 8]),
        ("deepseek-v3", [1, 2, 4, 8]),
        ("deepseek-r1", [1, 2, 4, 8]),
        ("smollm2-135m", [1]),
    ],
)
def test_tensor_parallelism_of_known_models(model: str, allowed: list[int]) -> None:
    found = [size for size in (1, 2, 4, 8) if not _problems(model, Layout(tensor=size))]
    assert found == allowed


def test_a_refusal_names_the_numbers() -> None:
    assert _problems("phi-4", Layout(tensor=4)) == (
        "10 KV heads can be neither divided over nor replicated on 4 devices",
    )
    assert _problems("qwen2.5-7b", Layout(tensor=8)) == (
        "28 attention heads cannot be divided by 8",
    )


def test_every_reason_is_given() -> None:
    heads, kv_heads, vocabulary, size = _problems("phi-4", Layout(tensor=12))
    assert "40 attention heads" in heads
    assert "10 KV heads" in kv_heads
    assert "100,352" in vocabulary
    assert "17920" in size


@pytest.mark.parametrize("weights", ["awq", "gptq", "fp8-block"])
def test_groups_of_a_quantized_matrix_are_not_cut(weights: str) -> None:
    unpadded = MODELS["qwen2.5-72b"].model_copy(update={"checkpoints": ()})
    (problem,) = layout_problems(
        unpadded, Layout(tensor=8), Precision(weights=weights), devices_per_node=8
    )
    assert "29568 over 8 devices is 3696" in problem
    assert "group of 128" in problem


@pytest.mark.parametrize("weights", ["bf16", "fp8", "int8"])
def test_schemes_without_groups_accept_any_size(weights: str) -> None:
    assert _problems("qwen2.5-72b", Layout(tensor=8), weights=weights) == ()


@pytest.mark.parametrize("weights", ["awq", "gptq", "fp8-block"])
def test_groups_of_experts_are_halved_where_tensor_parallelism_cuts_them(weights: str) -> None:
    assert _problems("qwen3-30b-a3b", Layout(tensor=4), weights=weights) == ()  # 192: groups of 64
    small = made_up(experts=MixtureOfExperts(count=8, per_token=2, intermediate=96))
    (problem,) = layout_problems(
        small, Layout(tensor=2), Precision(weights=weights), devices_per_node=8
    )
    assert "96 over 2 devices is 48, not a multiple of the group of 32" in problem


def test_sizes_that_no_layer_has_are_not_divided() -> None:
    """A mixture without dense layers has no MLP of `intermediate`; MLA has no KV heads."""
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=64)
    latent = LatentAttention(kv_lora_rank=32, rope_dimensions=8)
    mixture = made_up(experts=experts, latent=latent, intermediate=257, kv_heads=3)
    layout, precision = Layout(tensor=2), Precision()
    assert layout_problems(mixture, layout, precision, devices_per_node=8) == ()
    dense = experts.model_copy(update={"leading_dense_layers": 1})
    some = mixture.model_copy(update={"experts": dense, "latent": None})
    kv_heads, size = layout_problems(some, layout, precision, devices_per_node=8)
    assert "3 KV heads" in kv_heads
    assert "257" in size


def test_shared_experts_are_one_wider_mlp() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=128, shared=3)
    layout, precision = Layout(tensor=2, expert=2), Precision(weights="awq")
    (problem,) = layout_problems(made_up(experts=experts), layout, precision, devices_per_node=8)
    assert "shared experts' intermediate size of 384 over 2 devices is 192" in problem


def test_whole_experts_per_device_have_no_cut_groups() -> None:
    assert _problems("qwen3-30b-a3b", Layout(tensor=4, expert=4), weights="awq") == ()


@pytest.mark.parametrize(
    ("model", "layout", "message"),
    [
        ("qwen3-8b", Layout(tensor=2, expert=2), "needs a mixture of experts"),
        ("mixtral-8x7b", Layout(tensor=4, expert=8), "cannot be divided by expert 8"),
        (
            "mixtral-8x7b",
            Layout(tensor=2, data=8, expert=16),
            "8 experts are too few for 16 devices",
        ),
        ("llama-3.1-8b", Layout(pipeline=40), "32 layers are too few for 40"),
        ("llama-3.1-405b", Layout(tensor=16), "inside a node of 8 devices: use TP 8 with PP 2"),
        ("llama-3.1-8b", Layout(pipeline=9), "9 devices are not 2 hosts of 8"),
        ("llama-3.1-8b", Layout(tensor=2, pipeline=6), "takes whole ones, and 12 devices are not"),
        ("llama-3.1-8b", Layout(tensor=8, data=2), "plans no data parallelism over hosts"),
        ("mixtral-8x7b", Layout(tensor=2, data=8), "plans no data parallelism over hosts"),
        (
            "llama-3.1-70b",
            Layout(tensor=4, pipeline=3),
            "12 devices are not 2 hosts of 8 with whole tensor-parallel groups of 4: use"
            " `pipeline: 4`",
        ),
    ],
)
def test_other_layouts_that_are_refused(model: str, layout: Layout, message: str) -> None:
    (problem,) = _problems(model, layout)
    assert message in problem


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.integers(1, 32),
    data=st.sampled_from([1, 2, 3, 4]),
    devices_per_node=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_an_accepted_layout_fills_its_nodes_with_whole_groups(
    tensor: int, pipeline: int, data: int, devices_per_node: int
) -> None:
    layout = Layout(tensor=tensor, pipeline=pipeline, data=data)
    if _problems("llama-3.1-8b", layout, devices_per_node=devices_per_node):
        return
    nodes = layout.nodes(devices_per_node)
    on_each = layout.devices_on_each_node(devices_per_node)
    assert nodes * on_each == layout.devices
    assert on_each <= devices_per_node
    assert on_each % tensor == 0
    if nodes > 1:
        assert on_each == devices_per_node
        assert data == 1


def test_a_larger_node_takes_a_larger_group() -> None:
    layout = Layout(tensor=16)
    assert _problems("llama-3.1-405b", layout, devices_per_node=16) == ()
    assert _problems("llama-3.1-405b", Layout(tensor=8, pipeline=2)) == ()


@pytest.mark.parametrize(("tensor", "held"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_kv_heads_are_divided_until_one_is_left(tensor: int, held: int) -> None:
    assert kv_heads_per_device(MODELS["qwen2.5-7b"], tensor) == held


@pytest.mark.parametrize(
    ("layout", "slices"),
    [
        (Layout(), 1),
        (Layout(tensor=4), 4),
        (Layout(tensor=4, expert=4), 1),
        (Layout(tensor=4, data=2, expert=2), 4),
    ],
)
def test_an_expert_is_sliced_over_what_expert_parallelism_leaves(
    layout: Layout, slices: int
) -> None:
    assert expert_slices(layout) == slices


@pytest.mark.parametrize(
    ("layers", "pipeline", "sizes"),
    [
        (80, 2, [40, 40]),
        (61, 2, [31, 30]),
        (62, 4, [15, 16, 16, 15]),
        (7, 4, [2, 2, 2, 1]),
        (3, 1, [3]),
    ],
)
def test_left_over_layers_go_to_stages_before_the_last(
    layers: int, pipeline: int, sizes: list[int]
) -> None:
    assert [len(stage) for stage in stage_layers(layers, pipeline)] == sizes


@given(layers=st.integers(1, 200), pipeline=st.integers(1, 16))
def test_stages_hold_every_layer_once(layers: int, pipeline: int) -> None:
    stages = stage_layers(layers, pipeline)
    assert [layer for stage in stages for layer in stage] == list(range(layers))


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    heads=st.sampled_from([8, 16, 32]),
    experts=st.sampled_from([8, 16]),
)
def test_powers_of_two_always_fit_each_other(tensor: int, heads: int, experts: int) -> None:
    mixture = MixtureOfExperts(count=experts, per_token=2, intermediate=1024)
    architecture = made_up(heads=heads, kv_heads=4, experts=mixture)
    for expert in (1, tensor):
        layout = Layout(tensor=tensor, expert=expert)
        assert layout_problems(architecture, layout, Precision(), devices_per_node=8) == ()
