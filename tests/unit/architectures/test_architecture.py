"""What a config.json decides, and what is refused rather than counted wrongly."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.architectures.families import FAMILIES
from slipway.config.catalog import MixtureOfExperts, SlidingWindow, attending_layers
from slipway.config.errors import ConfigError
from tests.unit.architectures.configs import DEEPSEEK, LLAMA, LLAMA_4, QWEN_MOE, QWEN_NEXT, read

GEMMA_3 = {**LLAMA, "model_type": "gemma3_text", "num_hidden_layers": 12}


def test_a_plain_model_has_the_facts_of_its_file() -> None:
    architecture = read(LLAMA)
    assert (architecture.layers, architecture.hidden, architecture.heads) == (4, 64, 8)
    assert (architecture.kv_heads, architecture.head_dim) == (2, 8)
    assert (architecture.intermediate, architecture.vocabulary) == (256, 1000)
    assert (architecture.context, architecture.published_weights) == (4096, "bf16")
    assert architecture.parts == ()
    assert not architecture.tied_embeddings
    assert architecture.parameters is None, "nobody published one"


def test_heads_of_their_own_size_are_read() -> None:
    assert read(LLAMA, head_dim=32).head_dim == 32


def test_as_many_kv_heads_as_heads_are_left_out() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert read(config).kv_heads == 8


@pytest.mark.parametrize(
    ("stated", "read_as"),
    [("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "bf16")],
)
def test_the_dtype_is_the_one_that_vllm_loads(stated: str, read_as: str) -> None:
    assert read(LLAMA, torch_dtype=stated).published_weights == read_as


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        (None, 4096),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
        ({"type": "yarn", "factor": 4.0}, 4096),
        ({"rope_type": "linear", "factor": 4.0}, 16384),
        ({"type": "dynamic", "factor": 2.0}, 8192),
        ({"rope_type": "deepseek_yarn", "factor": 40.0}, 4096),
        ({"rope_type": "deepseek_llama_scaling", "factor": 8.0}, 4096),
    ],
)
def test_the_context_is_scaled_where_vllm_scales_it(
    rope: dict[str, Any] | None, context: int
) -> None:
    assert read(LLAMA, rope_scaling=rope).context == context


def test_the_context_of_gemma_3_is_scaled_already() -> None:
    scaled = {"rope_type": "linear", "factor": 8.0}
    assert read(GEMMA_3, rope_scaling=scaled).context == 4096


def test_all_but_every_sixth_layer_of_gemma_3_have_a_window() -> None:
    assert read(GEMMA_3, sliding_window=512).sliding_window == SlidingWindow(layers=10, tokens=512)


def test_kinds_of_layers_that_are_listed_count_more_than_the_rule() -> None:
    kinds = ["full_attention"] * 11 + ["sliding_attention"]
    window = read(GEMMA_3, sliding_window=512, layer_types=kinds).sliding_window
    assert window == SlidingWindow(layers=1, tokens=512)


def test_a_window_that_qwen_does_not_use_is_none() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 128, "max_window_layers": 1}
    assert read(qwen, use_sliding_window=False).sliding_window is None
    used = read(qwen, use_sliding_window=True).sliding_window
    assert used == SlidingWindow(layers=3, tokens=128)


def test_llama_4_keeps_all_tokens_of_its_chunks() -> None:
    kinds = ["chunked_attention"] * 3 + ["full_attention"]
    assert read(LLAMA_4, attention_chunk_size=128, layer_types=kinds).sliding_window is None


def test_llama_4_has_experts_in_every_second_layer() -> None:
    architecture = read(LLAMA_4)
    assert architecture.intermediate == 256
    assert architecture.experts == MixtureOfExperts(
        count=8, per_token=1, intermediate=32, shared=1, every=2
    )


@given(layers=st.integers(1, 100), data=st.data())
def test_layers_with_attention_are_as_many_as_asked_for_with_the_last(
    layers: int, data: st.DataObject
) -> None:
    attending = data.draw(st.integers(1, layers))
    found = attending_layers(layers, attending)
    assert len(found) == attending
    assert max(found) == layers - 1


def test_states_are_as_wide_as_the_file_says() -> None:
    for stated, size in (("float32", 4), (None, 2)):
        linear = read(QWEN_NEXT, mamba_ssm_dtype=stated).linear_attention
        assert linear is not None
        assert (linear.layers, linear.state_bytes) == (6, size)


REFUSED = [
    (LLAMA, {"model_type": "mamba2"}, "model_type", '"mamba2"'),
    (LLAMA, {"model_type": "gemma4"}, "model_type", 'did you mean "gemma'),
    (LLAMA, {"model_type": "t5"}, "model_type", "this model_type is not supported"),
    (LLAMA, {"model_type": None}, "model_type", "is required"),
    (LLAMA, {"hidden_size": "64"}, "hidden_size", "whole number"),
    (LLAMA, {"num_hidden_layers": 10**6}, "num_hidden_layers", "must be at most"),
    (LLAMA, {"vocab_size": 10**9}, "vocab_size", "must be at most 100000000"),
    (QWEN_MOE, {"num_experts": 10**9}, "num_experts", "must be at most"),
    (DEEPSEEK, {"v_head_dim": 10**9}, "v_head_dim", "must be at most"),
    (
        LLAMA,
        {"num_attention_heads": 30, "num_key_value_heads": 8, "head_dim": 8},
        "num_key_value_heads",
        "must divide num_attention_heads, which is 30",
    ),
    (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads", "must divide"),
    (LLAMA, {"num_key_value_heads": 16}, "num_key_value_heads", "which is 8"),
    (LLAMA, {"num_attention_heads": 6}, "hidden_size", "multiple of num_attention_heads"),
    (LLAMA, {"num_hidden_layers": 0}, "num_hidden_layers", "1 or more"),
    (LLAMA, {"tie_word_embeddings": "yes"}, "tie_word_embeddings", "true or false"),
    (LLAMA, {"torch_dtype": "float8"}, "torch_dtype", "float8"),
    (LLAMA, {"rope_scaling": 4}, "rope_scaling", "mapping"),
    (
        LLAMA,
        {"rope_scaling": {"type": "linear", "factor": math.inf}},
        "rope_scaling",
        "more than 0",
    ),
    (LLAMA, {"use_sliding_window": True}, "use_sliding_window", "not supported"),
    (GEMMA_3, {"layer_types": ["mamba"] * 12}, "layer_types", "mamba"),
    (QWEN_MOE, {"mlp_only_layers": [3]}, "mlp_only_layers", "[3]"),
    (QWEN_MOE, {"shared_expert_intermediate_size": 32}, "shared_expert_inter", "must be 0"),
    (QWEN_NEXT, {"shared_expert_intermediate_size": 33}, "shared_expert_inter", "multiple"),
    (QWEN_NEXT, {"attn_output_gate": False}, "attn_output_gate", "must be true"),
    (QWEN_NEXT, {"layer_types": ["full_attention"] * 2 + ["linear_attention"] * 6}, "", "evenly"),
    (DEEPSEEK, {"moe_layer_freq": 2}, "moe_layer_freq", "(found 2)"),
    (DEEPSEEK, {"attention_bias": True}, "attention_bias", "must be false"),
    (DEEPSEEK, {"mlp_layer_types": ["sparse", "dense"]}, "mlp_layer_types", "after the first"),
    (LLAMA_4, {"moe_layers": [0, 1]}, "moe_layers", "every 2th layer"),
    ({**LLAMA, "model_type": "phi"}, {"qk_layernorm": True}, "qk_layernorm", "must be false"),
    ({**LLAMA, "model_type": "gemma3"}, {}, "vision_config", "required"),
    (
        {**LLAMA, "model_type": "gemma3"},
        {"vision_config": {"hidden_size": 64}},
        "vision_config.vision_use_head",
        "must be false",
    ),
]


@pytest.mark.parametrize(("config", "changes", "key", "said"), REFUSED)
def test_what_would_be_counted_wrongly_is_refused_with_its_key(
    config: dict[str, Any], changes: dict[str, Any], key: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(config, **changes)
    (problem,) = caught.value.problems
    assert problem.source == "config.json"
    assert problem.key.startswith(key)
    assert said in str(problem)
    assert problem.fix


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers"])
def test_no_default_is_taken_for_the_size_of_a_model(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    with pytest.raises(ConfigError, match=key):
        read(config)


def test_heads_that_do_not_divide_the_hidden_size_may_have_a_size_of_their_own() -> None:
    architecture = read(LLAMA, num_attention_heads=6, head_dim=16)
    assert (architecture.heads, architecture.head_dim) == (6, 16)


def test_a_key_of_the_text_model_is_named_with_its_section() -> None:
    text = LLAMA | {"vocab_size": 10**9}
    with pytest.raises(ConfigError, match=r"config.json: text_config\.vocab_size: must be at most"):
        read(
            {"model_type": "llama4", "text_config": text | {"intermediate_size_mlp": 256}}
            | {"vision_config": {"hidden_size": 64}}
        )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**7) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(kind=st.sampled_from(sorted(FAMILIES)), key=st.sampled_from(sorted(DEEPSEEK)), value=JSON)
def test_a_broken_file_is_refused_and_never_breaks_the_reader(
    kind: str, key: str, value: Any
) -> None:
    with suppress(ConfigError):
        assert read({**DEEPSEEK, "model_type": kind}, **{key: value}).layers > 0
