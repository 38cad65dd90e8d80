"""The formulas against models worked out by hand and against known deployments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.catalog import (
    Architecture,
    LatentAttention,
    LinearAttention,
    MixtureOfExperts,
    SlidingWindow,
    StatedBytes,
)
from slipway.plan.figures import DeviceMemory, Layout, Precision
from slipway.planner.engines.adapter import LoraAdapters
from slipway.planner.engines.sim.memory import SIM_REPLICA_BYTES, simulated_replica
from slipway.planner.engines.vllm.kv_cache import (
    in_flight_tokens,
    kv_bytes,
    kv_bytes_per_token,
    longest_sequence,
    sequence_memory,
)
from slipway.planner.engines.vllm.memory import (
    CPU_ENGINE_OVERHEAD_BYTES,
    RUNTIME_BYTES,
    activation_bytes,
    adapter_bytes,
    communication_bytes,
    cpu_replica,
    default_batched_tokens,
    device_memory,
    graph_bytes,
    memory_sources,
)
from slipway.planner.engines.vllm.releases import release_of
from slipway.planner.engines.vllm.weights import device_weight_bytes, loaded_weights
from slipway.planner.quantization import SCHEMES, weight_bytes
from tests.unit.planner.architectures import ACCELERATORS, MODELS, made_up
from tests.unit.planner.engines.vllm.sequences import sequence_kv_bytes

KIB, MIB, GIB = 2**10, 2**20, 2**30
PER_LAYER = 2 * 2 * 8 * 2  # bytes of a token in a made-up layer: K and V, 2 heads, 8 values of 2


def _memory(
    model: str,
    accelerator: str,
    *,
    tensor: int = 1,
    pipeline: int = 1,
    data: int = 1,
    weights: str = "bf16",
    kv: str = "bf16",
    max_len: int = 8192,
    **options: Any,
) -> DeviceMemory:
    return device_memory(
        MODELS[model],
        ACCELERATORS[accelerator],
        layout=Layout(tensor=tensor, pipeline=pipeline, data=data),
        precision=Precision(weights=weights, kv=kv),
        max_len=max_len,
        max_num_seqs=options.pop("max_num_seqs", 256),
        **options,
    )


# --- the KV cache of a token -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "kib"),
    [
        ("llama-3.1-8b", 128),
        ("llama-3.1-70b", 320),
        ("llama-3.1-405b", 504),
        ("qwen2.5-7b", 56),
        ("qwen2.5-vl-7b", 56),
        ("qwen2.5-32b", 256),
        ("qwen2.5-72b", 320),
        ("qwen3-8b", 144),
        ("qwen3-32b", 256),
        ("qwen3-30b-a3b", 96),
        ("mistral-7b", 128),
        ("mixtral-8x7b", 128),
        ("phi-4", 200),
        ("gemma-2-9b", 336),
        ("gemma-2-27b", 368),
        ("gemma-3-12b", 384),
        ("gemma-3-27b", 496),
        ("smollm2-1.7b", 2 * 24 * 32 * 64 * 2 / KIB),  # every head has its own keys
    ],
)
def test_kv_per_token_of_known_models(model: str, kib: float) -> None:
    assert kv_bytes_per_token(MODELS[model], bytes_per_value=2) == kib * KIB


def test_latent_attention_keeps_one_vector_per_layer() -> None:
    per_token = kv_bytes_per_token(MODELS["deepseek-v3"], bytes_per_value=2)
    assert per_token == 61 * 576 * 2 == 70_272


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_latent_attention_is_the_same_on_every_device(tensor: int) -> None:
    layout = Layout(tensor=tensor)
    per_token = kv_bytes_per_token(MODELS["deepseek-v3"], bytes_per_value=2, layout=layout)
    assert per_token == 61 * 576 * 2


@pytest.mark.parametrize(("tensor", "kib"), [(1, 56), (2, 28), (4, 14), (8, 14)], ids=str)
def test_kv_heads_are_divided_until_one_is_left(tensor: int, kib: int) -> None:
    layout = Layout(tensor=tensor)
    per_token = kv_bytes_per_token(MODELS["qwen2.5-7b"], bytes_per_value=2, layout=layout)
    assert per_token == kib * KIB


@pytest.mark.parametrize(("pipeline", "layers"), [(1, 61), (2, 31), (4, 16)])
def test_a_pipeline_stage_holds_its_own_layers(pipeline: int, layers: int) -> None:
    layout = Layout(pipeline=pipeline)
    per_token = kv_bytes_per_token(MODELS["deepseek-v3"], bytes_per_value=2, layout=layout)
    assert per_token == layers * 576 * 2


# --- the KV cache of a sequence --------------------------------------------------------------


def test_window_layers_stop_growing_at_the_window() -> None:
    windowed = made_up(sliding_window=SlidingWindow(layers=3, tokens=10))
    assert kv_bytes(windowed, tokens=10, bytes_per_value=2) == 4 * 10 * PER_LAYER
    assert kv_bytes(windowed, tokens=110, bytes_per_value=2) == (110 + 3 * 10) * PER_LAYER


@pytest.mark.parametrize(
    ("model", "tokens", "layer_tokens"),
    [
        ("gemma-2-9b", 4096, 42 * 4096),
        ("gemma-2-9b", 8192, 21 * 8192 + 21 * 4096),
        ("gemma-3-12b", 131_072, 8 * 131_072 + 40 * 1024),
        ("gemma-3-27b", 131_072, 10 * 131_072 + 52 * 1024),
        ("gpt-oss-120b", 131_072, 18 * 131_072 + 18 * 128),
    ],
)
def test_windowed_models_at_length(model: str, tokens: int, layer_tokens: int) -> None:
    architecture = MODELS[model]
    per_layer = 2 * architecture.kv_heads * architecture.head_dim * 2
    assert kv_bytes(architecture, tokens=tokens, bytes_per_value=2) == layer_tokens * per_layer


def test_gemma_3_keeps_about_a_sixth_of_a_long_context() -> None:
    gemma = MODELS["gemma-3-27b"]
    full = 131_072 * kv_bytes_per_token(gemma, bytes_per_value=2)
    share = kv_bytes(gemma, tokens=131_072, bytes_per_value=2) / full
    assert share == pytest.approx(1 / 6, abs=0.01)


def test_whole_blocks_are_allocated() -> None:
    for tokens, blocks in ((1, 1), (16, 1), (17, 2), (4096, 256)):
        allocated = sequence_kv_bytes(made_up(), tokens=tokens, bytes_per_value=2)
        assert allocated == 4 * blocks * 16 * PER_LAYER


def test_layers_are_allocated_in_groups_of_one_size() -> None:
    """Gemma-3-27B by hand: 10 full layers, 52 windowed ones in 6 groups of 10; a window of 1,024
    tokens is in 65 blocks at most; a layer's block is 16 · 2 · 16 heads · 128 · 2 bytes."""
    allocated = sequence_kv_bytes(MODELS["gemma-3-27b"], tokens=131_072, bytes_per_value=2)
    assert allocated == (10 * 8192 + 60 * 65) * 16 * 2 * 16 * 128 * 2


def test_nearly_as_many_layers_are_one_group_each() -> None:
    """12 full and 10 windowed layers: two groups of 12, not four of 10."""
    window = SlidingWindow(layers=10, tokens=16)
    architecture = made_up(layers=22, sliding_window=window)
    allocated = sequence_kv_bytes(architecture, tokens=160, bytes_per_value=2)
    assert allocated == (12 * 10 + 12 * 2) * 16 * PER_LAYER


def test_a_prompt_in_flight_is_held_beside_the_window() -> None:
    """Two steps of 8,192 tokens before the window of 1,024: 1,089 blocks of a windowed layer."""
    admitted = sequence_kv_bytes(
        MODELS["gemma-3-27b"], tokens=131_072, bytes_per_value=2, in_flight=2 * 8192
    )
    assert admitted == (10 * 8192 + 60 * 1089) * 16 * 2 * 16 * 128 * 2


def test_steps_in_flight_are_one_per_stage_and_one_prepared() -> None:
    assert in_flight_tokens(Layout(tensor=4), 8192) == 2 * 8192
    assert in_flight_tokens(Layout(pipeline=2), 2048) == 3 * 2048


def test_windowed_sequences_decode_beside_one_that_is_admitted() -> None:
    memory = _memory("gemma-3-27b", "H200", max_len=131_072)
    per_block = 16 * 2 * 16 * 128 * 2
    decoding = (10 * 8192 + 60 * 65) * per_block
    admitted = (10 * 8192 + 60 * 1089) * per_block
    more = (memory.kv_cache_bytes - admitted) // decoding
    assert memory.max_sequences_at_full_length == 1 + more > 5
    assert memory.kv_tokens == memory.kv_cache_bytes * 131_072 // decoding
    assert memory.kv_tokens > 5 * memory.kv_cache_bytes // memory.kv_bytes_per_token


def test_a_sequence_that_is_not_admitted_is_none() -> None:
    """On an H100 the cache of 18 GiB holds one that decodes, and not its prompt."""
    memory = _memory("gemma-3-27b", "H100-80", max_len=131_072)
    assert memory.kv_tokens > 131_072
    assert memory.max_sequences_at_full_length == 1
    tight = _memory("gemma-3-27b", "H100-80", max_len=131_072, utilization=0.88)
    assert tight.kv_tokens > 131_072
    assert tight.max_sequences_at_full_length == 0


# --- known deployments (what they have left) -------------------------------------------------


def test_a_7b_model_in_bfloat16_on_an_l4() -> None:
    memory = _memory("qwen2.5-7b", "L4")
    assert memory.kv_tokens == pytest.approx(82_000, rel=0.03)
    # of a model of that size with 128 KiB a token
    assert memory.kv_cache_bytes / (128 * KIB) == pytest.approx(36_000, rel=0.03)


def test_a_70b_model_in_fp8_on_two_h100() -> None:
    memory = _memory("llama-3.1-70b", "H100-80", tensor=2, weights="fp8")
    assert memory.kv_bytes_per_token == 160 * KIB
    assert memory.kv_tokens == pytest.approx(237_000, rel=0.03)


def test_a_70b_model_in_bfloat16_on_four_l40s() -> None:
    memory = _memory("llama-3.1-70b", "L40S", tensor=4)
    assert memory.kv_bytes_per_token == 80 * KIB
    assert memory.kv_tokens == pytest.approx(69_000, rel=0.03)


def test_a_70b_model_in_bfloat16_does_not_fit_on_one_h100() -> None:
    memory = _memory("llama-3.1-70b", "H100-80")
    assert memory.kv_cache_bytes < -60 * GIB
    assert memory.kv_tokens == memory.max_sequences_at_full_length == 0


# --- parts of a device -----------------------------------------------------------------------


def test_the_parts_of_a_device_add_up_to_what_may_be_used() -> None:
    memory = _memory("llama-3.1-70b", "H100-80", tensor=4, adapters=LoraAdapters(count=4, rank=16))
    assert memory.usable_bytes == int(0.9 * 81_080 * MIB)
    assert memory.adapters_bytes > 0
    assert memory.runtime_bytes == RUNTIME_BYTES
    assert memory.usable_bytes == (
        memory.weights_bytes
        + memory.activations_bytes
        + memory.graphs_bytes
        + memory.communication_bytes
        + memory.runtime_bytes
        + memory.adapters_bytes
        + memory.kv_cache_bytes
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_one_device_holds_all_weights(name: str) -> None:
    model = MODELS[name]
    scheme = SCHEMES[model.published_weights]
    alone, all_of_them = device_weight_bytes(model, scheme, Layout()), weight_bytes(model, scheme)
    if name.startswith("gpt-oss"):
        assert alone > 1.05 * all_of_them, "its experts are padded"
    else:
        assert alone == pytest.approx(all_of_them, abs=2)


@pytest.mark.parametrize(("tensor", "hidden", "inner"), [(1, 3072, 2944), (2, 3072, 1536)])
def test_experts_that_kernels_cannot_divide_are_padded(
    tensor: int, hidden: int, inner: int
) -> None:
    """gpt-oss: a hidden size of 2,880 to multiples of 256, a slice of 2,880 to multiples of 128."""
    model, layout = MODELS["gpt-oss-120b"], Layout(tensor=tensor)
    packed = SCHEMES["mxfp4"]
    exact = replace(packed, expert_padding=(1, 1))
    added = device_weight_bytes(model, packed, layout) - device_weight_bytes(model, exact, layout)
    values = 36 * 128 * 3 * (hidden * inner - 2880 * 2880 // tensor)
    assert added == pytest.approx(values * packed.bytes_per_weight, rel=1e-6)


def test_replicated_kv_heads_are_weights_on_every_device() -> None:
    """Made-up: 2 KV heads over 4 devices keep one each, so K and V are halved, not quartered."""
    scheme = SCHEMES["bf16"]
    divided = 4 * (2 * 64 * 64 + 3 * 64 * 256) + 2 * 1000 * 64 + 64
    keys, norms = 4 * 2 * 64 * 16, 4 * 2 * 64
    wanted = 2 * (divided / 4 + keys / 2 + norms)
    assert device_weight_bytes(made_up(), scheme, Layout(tensor=4)) == pytest.approx(wanted, abs=1)


def test_the_fullest_stage_of_a_pipeline_counts() -> None:
    """DeepSeek-V3 over 2 stages: 31 layers, 3 of them dense, against 30 mixtures."""
    whole = device_weight_bytes(MODELS["deepseek-v3"], SCHEMES["fp8-block"], Layout(tensor=8))
    half = device_weight_bytes(
        MODELS["deepseek-v3"], SCHEMES["fp8-block"], Layout(tensor=8, pipeline=2)
    )
    mixtures = 58
    assert half / whole == pytest.approx(30 / mixtures, abs=0.01)


def test_a_tied_table_is_held_at_both_ends_of_a_pipeline() -> None:
    """The last stage has the last norm more than the first, so it is the fullest."""
    tied = made_up(tied_embeddings=True)
    layers, table, norm = 4 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 256 + 2 * 64), 64_000, 64
    alone = device_weight_bytes(tied, SCHEMES["bf16"], Layout())
    staged = device_weight_bytes(tied, SCHEMES["bf16"], Layout(pipeline=2))
    assert alone == 2 * (layers + table + norm)
    assert staged == 2 * (layers / 2 + table + norm)


def test_a_vision_tower_is_whole_on_every_device() -> None:
    seeing = made_up(vision_parameters=1_000_000)
    for layout in (Layout(), Layout(tensor=2)):
        blind = device_weight_bytes(made_up(), SCHEMES["fp8"], layout)
        assert device_weight_bytes(seeing, SCHEMES["fp8"], layout) - blind == 2_000_000


def test_data_parallel_ranks_share_experts_and_nothing_else() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=512)
    mixture, scheme = made_up(experts=experts), SCHEMES["bf16"]
    alone = device_weight_bytes(mixture, scheme, Layout())
    shared = device_weight_bytes(mixture, scheme, Layout(data=4, expert=4))
    assert alone - shared == 2 * 4 * 8 * (3 * 64 * 512) * 3 // 4
    halves = device_weight_bytes(mixture, scheme, Layout(data=4, expert=2))  # sliced in two each
    assert halves == shared


def test_data_parallel_ranks_hold_sequences_of_their_own() -> None:
    one = _memory("llama-3.1-8b", "H100-80")
    two = _memory("llama-3.1-8b", "H100-80", data=2)
    assert two.kv_tokens == pytest.approx(2 * one.kv_tokens, rel=0.01)
    assert two.max_sequences_at_full_length >= 2 * one.max_sequences_at_full_length - 2


def test_fp8_halves_the_kv_cache_of_a_token_and_doubles_the_tokens() -> None:
    wide = _memory("llama-3.1-8b", "H100-80")
    narrow = _memory("llama-3.1-8b", "H100-80", kv="fp8")
    assert narrow.kv_bytes_per_token * 2 == wide.kv_bytes_per_token
    assert narrow.kv_tokens == pytest.approx(2 * wide.kv_tokens, abs=1)
    assert narrow.kv_cache_bytes == wide.kv_cache_bytes


def test_activations_are_the_widest_part_of_a_layer() -> None:
    """Made-up: residual, input, output of 64; gate and up and their product of 256."""
    found = activation_bytes(made_up(), kernel="marlin", layout=Layout(), tokens=8192, sequences=1)
    assert found == 8192 * 2 * (3 * 64 + 3 * 256)
    halved = activation_bytes(
        made_up(), kernel="marlin", layout=Layout(tensor=2), tokens=8192, sequences=1
    )
    assert halved == 8192 * 2 * (3 * 64 + 3 * 128)


def test_a_mixture_has_the_activations_of_every_expert_of_a_token() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=256, shared=1)
    found = activation_bytes(
        made_up(experts=experts), kernel="marlin", layout=Layout(), tokens=100, sequences=0
    )
    assert found == 100 * 2 * (3 * 64 + 2 * (2 * 256 + 256) + 3 * 256)


def test_buffers_of_experts_stay_beside_the_widest_part_of_a_layer() -> None:
    """By hand: attention of 8 + 2 heads, in and out, is wider than the shared expert."""
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=16, shared=1)
    for kernel, per_expert in (("marlin", 64 + 16), ("triton", 64 + 64)):
        found = activation_bytes(
            made_up(experts=experts), layout=Layout(), kernel=kernel, tokens=100, sequences=0
        )
        assert found == 100 * 2 * (2 * per_expert + 3 * 64 + 160), kernel


def test_buffers_of_experts_stay_beside_the_sampler() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=16)
    options = {"layout": Layout(), "kernel": "triton", "tokens": 100}
    alone = activation_bytes(made_up(), **options, sequences=512)
    mixed = activation_bytes(made_up(experts=experts), **options, sequences=512)
    assert mixed - alone == 100 * 2 * 2 * (64 + 64)


def test_deepgemm_rounds_the_tokens_of_every_expert_up_to_its_blocks() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=16)
    options = {"layout": Layout(), "tokens": 100, "sequences": 0}
    plain = activation_bytes(made_up(experts=experts), kernel="triton", **options)
    blocked = activation_bytes(made_up(experts=experts), kernel="deepgemm", **options)
    assert blocked - plain == 8 * 127 * 2 * (64 + 64)


def test_older_releases_of_vllm_free_the_buffers_of_experts() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=16)
    options = {"layout": Layout(), "kernel": "triton", "tokens": 100, "sequences": 512}
    older = activation_bytes(made_up(experts=experts), **options, release=release_of("0.17.0"))
    assert older == 512 * 1000 * 14


def test_latent_attention_has_activations_of_its_heads() -> None:
    latent = LatentAttention(
        kv_lora_rank=32, rope_dimensions=64, nope_dimensions=128, value_dimensions=128
    )
    found = activation_bytes(
        made_up(latent=latent), kernel="marlin", layout=Layout(), tokens=100, sequences=0
    )
    assert found == 100 * 2 * (3 * 64 + 8 * (2 * 192 + 2 * 128))


def test_many_sequences_make_the_sampler_the_peak() -> None:
    found = activation_bytes(made_up(), kernel="marlin", layout=Layout(), tokens=1, sequences=512)
    assert found == 512 * 1000 * 14


@pytest.mark.parametrize(
    ("accelerator", "tokens"),
    [("L4", 2048), ("L40S", 2048), ("A100-80", 2048), ("H100-80", 8192), ("B200", 16_384)],
)
def test_a_step_is_as_large_as_vllm_makes_it_on_the_device(accelerator: str, tokens: int) -> None:
    assert default_batched_tokens(ACCELERATORS[accelerator]) == tokens
    alone = _memory("llama-3.1-8b", accelerator, max_num_seqs=1)
    named = _memory("llama-3.1-8b", accelerator, max_num_seqs=1, max_batched_tokens=tokens)
    assert alone == named


@pytest.mark.parametrize(
    ("layout", "mib"),
    [
        (Layout(), 0),
        (Layout(tensor=2), 342),
        (Layout(pipeline=2), 342),
        (Layout(tensor=8), 392),
        (Layout(tensor=2, pipeline=2), 392),
    ],
)
def test_devices_that_communicate_have_buffers(layout: Layout, mib: int) -> None:
    assert communication_bytes(layout) == mib * MIB


def test_graphs_grow_with_the_layers_of_a_stage() -> None:
    assert graph_bytes(made_up(layers=80), Layout()) == (460 + 80 * 4) * MIB
    assert graph_bytes(made_up(layers=80), Layout(pipeline=2)) == (460 + 40 * 4) * MIB


def test_an_adapter_has_two_matrices_per_projection() -> None:
    """Made-up, rank 8: (in + out) of query, key, value, output, gate, up, down."""
    sides = (64 + 64) + 2 * (64 + 16) + (64 + 64) + 2 * (64 + 256) + (256 + 64)
    adapters = LoraAdapters(count=3, rank=8)
    assert adapter_bytes(made_up(), adapters, Layout()) == 3 * 8 * 4 * sides * 2


def test_experts_have_no_adapters() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=16)
    adapters = LoraAdapters(count=1, rank=8)
    sides = 2 * (64 + 64) + 2 * (64 + 16)
    assert adapter_bytes(made_up(experts=experts), adapters, Layout()) == 8 * 4 * sides * 2


def test_tensor_parallelism_divides_one_matrix_of_each_adapter() -> None:
    sides = (64 + 32) + 2 * (64 + 8) + (32 + 64) + 2 * (64 + 128) + (128 + 64)
    adapters = LoraAdapters(count=1, rank=8)
    assert adapter_bytes(made_up(), adapters, Layout(tensor=2)) == 8 * 4 * sides * 2


def test_adapters_take_from_the_kv_cache() -> None:
    without = _memory("llama-3.1-8b", "L4")
    with_adapters = _memory("llama-3.1-8b", "L4", adapters=LoraAdapters(count=8, rank=16))
    taken = without.kv_cache_bytes - with_adapters.kv_cache_bytes
    assert taken == with_adapters.adapters_bytes > 0


# --- what always holds -----------------------------------------------------------------------

mixtures = st.builds(
    MixtureOfExperts,
    count=st.sampled_from([8, 16, 128]),
    per_token=st.integers(1, 8),
    intermediate=st.sampled_from([256, 768, 2048]),
    shared=st.integers(0, 2),
    leading_dense_layers=st.integers(0, 3),
)
windows = st.builds(
    SlidingWindow, layers=st.integers(1, 4), tokens=st.sampled_from([128, 1024, 4096])
)
architectures = st.builds(
    made_up,
    layers=st.integers(4, 100),
    heads=st.sampled_from([8, 16, 64]),
    kv_heads=st.sampled_from([1, 2, 4, 8]),
    head_dim=st.sampled_from([64, 128, 256]),
    hidden=st.sampled_from([1024, 4096]),
    intermediate=st.sampled_from([4096, 14_336]),
    vocabulary=st.sampled_from([32_000, 128_256]),
    tied_embeddings=st.booleans(),
    sliding_window=st.none() | windows,
    latent=st.none() | st.just(LatentAttention(kv_lora_rank=512, rope_dimensions=64)),
    experts=st.none() | mixtures,
)
tokens = st.integers(0, 10**6)
degrees = st.sampled_from([1, 2, 4, 8])
layouts = st.builds(Layout, tensor=degrees, pipeline=degrees)
schemes = st.sampled_from(sorted(SCHEMES))


@given(architecture=architectures, layout=layouts, fewer=tokens, more=tokens)
def test_more_tokens_never_need_less_cache(
    architecture: Architecture, layout: Layout, fewer: int, more: int
) -> None:
    fewer, more = sorted((fewer, more))
    for size in (kv_bytes, sequence_kv_bytes):
        less = size(architecture, tokens=fewer, bytes_per_value=2, layout=layout)
        assert less <= size(architecture, tokens=more, bytes_per_value=2, layout=layout)


@given(architecture=architectures, layout=layouts, count=tokens, width=st.sampled_from([1, 2, 4]))
def test_a_sequence_never_needs_more_than_its_tokens_times_the_rate(
    architecture: Architecture, layout: Layout, count: int, width: int
) -> None:
    rate = kv_bytes_per_token(architecture, bytes_per_value=width, layout=layout)
    used = kv_bytes(architecture, tokens=count, bytes_per_value=width, layout=layout)
    assert used <= count * rate
    if architecture.sliding_window is None:
        assert used == count * rate


@given(architecture=architectures, layout=layouts, count=tokens)
def test_more_is_allocated_than_used(
    architecture: Architecture, layout: Layout, count: int
) -> None:
    used = kv_bytes(architecture, tokens=count, bytes_per_value=2, layout=layout)
    assert sequence_kv_bytes(architecture, tokens=count, bytes_per_value=2, layout=layout) >= used


@given(architecture=architectures, layout=layouts, count=tokens)
def test_fp8_halves_every_cache(architecture: Architecture, layout: Layout, count: int) -> None:
    for size in (kv_bytes, sequence_kv_bytes):
        narrow = size(architecture, tokens=count, bytes_per_value=1, layout=layout)
        assert narrow * 2 == size(architecture, tokens=count, bytes_per_value=2, layout=layout)


@given(architecture=architectures, scheme=schemes, layout=layouts)
def test_more_devices_never_need_more_each(
    architecture: Architecture, scheme: str, layout: Layout
) -> None:
    wider = replace(layout, tensor=2 * layout.tensor)
    assert device_weight_bytes(architecture, SCHEMES[scheme], wider) <= device_weight_bytes(
        architecture, SCHEMES[scheme], layout
    )
    for size in (kv_bytes, sequence_kv_bytes):
        assert size(architecture, tokens=9999, bytes_per_value=2, layout=wider) <= size(
            architecture, tokens=9999, bytes_per_value=2, layout=layout
        )
    narrow, wide = (
        activation_bytes(architecture, layout=each, kernel="triton", tokens=8192, sequences=8)
        for each in (layout, wider)
    )
    assert wide <= narrow


@given(architecture=architectures, scheme=schemes, tensor=degrees)
def test_more_stages_never_need_more_each(
    architecture: Architecture, scheme: str, tensor: int
) -> None:
    found = [
        device_weight_bytes(architecture, SCHEMES[scheme], Layout(tensor=tensor, pipeline=pipeline))
        for pipeline in (1, 2, 4)
    ]
    assert found == sorted(found, reverse=True)


@given(architecture=architectures, scheme=schemes, layout=layouts)
def test_devices_together_hold_at_least_all_weights(
    architecture: Architecture, scheme: str, layout: Layout
) -> None:
    fullest = device_weight_bytes(architecture, SCHEMES[scheme], layout)
    assert fullest * layout.devices >= 0.999 * weight_bytes(architecture, SCHEMES[scheme])


@given(architecture=architectures)
def test_fewer_bits_are_never_more_bytes(architecture: Architecture) -> None:
    sizes = [
        weight_bytes(architecture, SCHEMES[scheme])
        for scheme in ("fp32", "bf16", "fp8", "nvfp4", "awq")
    ]
    assert sizes == sorted(sizes, reverse=True)


# --- replicas without accelerators -----------------------------------------------------------


def test_the_default_model_needs_what_was_measured() -> None:
    """4.7 GB of RSS summed over the processes of one replica (2026-11-21)."""
    estimate = cpu_replica(
        MODELS["smollm2-135m"], dtype="float32", kv_cache_bytes=GIB, max_len=2048
    )
    assert estimate.weights_bytes == 134_515_008 * 4
    assert estimate.kv_bytes_per_token == 2 * 30 * 3 * 64 * 4
    assert estimate.kv_tokens == GIB // estimate.kv_bytes_per_token == 23_301
    assert estimate.usable_bytes == estimate.weights_bytes + GIB + CPU_ENGINE_OVERHEAD_BYTES
    assert 4.7e9 <= estimate.usable_bytes <= 5.0e9


def test_a_simulated_replica_holds_neither_weights_nor_cache() -> None:
    estimate = simulated_replica(
        kv_bytes_per_token=320 * KIB, kv_cache_bytes=40 * GIB, max_len=8192
    )
    assert estimate.usable_bytes == SIM_REPLICA_BYTES
    assert estimate.weights_bytes == 0
    assert estimate.kv_tokens == 40 * GIB // (320 * KIB)


# --- linear attention ------------------------------------------------------------------------


def _hybrid(**changes: Any) -> Architecture:
    """Qwen3.5-35B-A3B's attention: 10 of 40 layers have it."""
    linear = LinearAttention(
        layers=30,
        key_heads=16,
        value_heads=32,
        key_dimensions=128,
        value_dimensions=128,
        state_bytes=4,
    )
    values = {"layers": 40, "hidden": 2048, "heads": 16, "kv_heads": 2, "head_dim": 256}
    return made_up(**values | {"linear_attention": linear} | changes)


def test_a_block_of_a_hybrid_is_as_large_as_a_state() -> None:
    """vllm-project/vllm#49476 printed 36.17 requests of 180,224 tokens in 64.36 GiB with one state
    of each sequence: 2,096 tokens of 2 x 2 x 256 bytes are the 2 MiB + 48 KiB of a state."""
    sequence = sequence_memory(_hybrid(), bytes_per_value=1)
    assert sequence.block_tokens == 2096
    assert sequence.full_block_bytes == 10 * (2**21 + 48 * KIB)
    with_one_state = sequence.held_bytes(180_224) - sequence.state_bytes // 2
    assert 64.36 * GIB / with_one_state == pytest.approx(36.17, abs=0.01)


def test_linear_attention_keeps_its_states_whatever_the_length() -> None:
    sequence = sequence_memory(_hybrid(), bytes_per_value=2)
    longer = sequence.held_bytes(100 * sequence.block_tokens)
    assert longer - sequence.held_bytes(sequence.block_tokens) == 99 * sequence.full_block_bytes
    assert sequence.state_bytes == 2 * 3 * sequence.full_block_bytes


def test_layers_with_linear_attention_have_no_cache_for_tokens() -> None:
    assert kv_bytes_per_token(_hybrid(), bytes_per_value=2) == 10 * 2 * 2 * 256 * 2


# --- bytes of a checkpoint -------------------------------------------------------------------


def _stated(architecture: Architecture, size_bytes: int) -> Architecture:
    stated = StatedBytes(size_bytes=size_bytes, file="index.json", key="metadata.total_size")
    return architecture.model_copy(update={"published_bytes": stated})


def test_bytes_of_the_checkpoints_own_files_replace_what_is_counted() -> None:
    llama = MODELS["llama-3.1-8b"]
    stored = _stated(llama, 20 * GIB)
    counted, _ = loaded_weights(llama, "bf16", Layout(tensor=2))
    read, error = loaded_weights(stored, "bf16", Layout(tensor=2))
    table = 131_072 * 128 * 2  # of rotations, on every device
    assert read == pytest.approx(10 * GIB + table, rel=0.001)
    assert read > counted
    assert error == 32 * MIB
    assert memory_sources(stored, "bf16").parts["weights"].startswith("exact")


def test_other_weights_than_the_stored_ones_stay_an_estimate() -> None:
    llama = MODELS["llama-3.1-8b"]
    stored = _stated(llama, 20 * GIB)
    assert loaded_weights(stored, "fp8", Layout()) == loaded_weights(llama, "fp8", Layout())
    assert memory_sources(stored, "fp8").parts["weights"].startswith("estimate")


@given(
    model=st.sampled_from(sorted(MODELS)),
    tensor=st.sampled_from([1, 2, 4, 8, 16]),
    weights=st.sampled_from(sorted(SCHEMES)),
)
def test_no_band_is_wider_than_a_tenth(model: str, tensor: int, weights: str) -> None:
    loaded, error = loaded_weights(MODELS[model], weights, Layout(tensor=tensor))
    assert 0 < error <= loaded / 10 + 1


@given(
    model=st.sampled_from(sorted(MODELS)),
    cache=st.integers(0, 200 * GIB),
    tensor=st.sampled_from([1, 2, 4]),
)
def test_the_longest_sequence_fits_and_the_next_does_not(
    model: str, cache: int, tensor: int
) -> None:
    architecture, layout = MODELS[model], Layout(tensor=tensor)
    longest = longest_sequence(
        architecture, cache, bytes_per_value=2, layout=layout, in_flight=4096
    )

    def needed(tokens: int) -> int:
        return sequence_kv_bytes(
            architecture, tokens=tokens, bytes_per_value=2, layout=layout, in_flight=4096
        )

    assert longest == 0 or needed(longest) <= cache  # states take room before the first token
    assert longest == architecture.context or needed(longest + 1) > cache
