"""Counts by hand, against what vendors publish, and against transformers."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.architectures.parameters import count
from slipway.config.artifacts import REQUIREMENTS
from slipway.config.catalog import LatentAttention, MixtureOfExperts
from tests.unit.plan.samples import ROOT
from tests.unit.planner.architectures import MODELS, made_up
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

SCRIPT = Path(__file__).with_name("transformers_counts.py")
PLAIN_LAYER = 64 * 64 + 2 * 64 * 16 + 64 * 64 + 3 * 64 * 256 + 2 * 64
TABLE = 1000 * 64


def test_a_plain_model_is_counted_matrix_by_matrix() -> None:
    assert count(made_up()).total == 4 * PLAIN_LAYER + 2 * TABLE + 64


def test_a_tied_table_is_counted_once() -> None:
    tied = count(made_up(tied_embeddings=True))
    assert tied.total == 4 * PLAIN_LAYER + TABLE + 64
    assert tied.embeddings == TABLE
    assert count(made_up()).embeddings == 2 * TABLE


@pytest.mark.parametrize(
    ("part", "per_layer"),
    [
        ("qkv_bias", 64 + 2 * 16),
        ("output_bias", 64),
        ("qk_norm", 2 * 8),
        ("post_norms", 2 * 64),
        ("attention_sinks", 8),
        ("plain_mlp", -64 * 256),
        ("mlp_bias", 2 * 256 + 64),
        ("parallel_mlp", -64),
    ],
)
def test_a_part_adds_its_parameters_to_every_layer(part: str, per_layer: int) -> None:
    assert count(made_up(parts=(part,))).total - count(made_up()).total == 4 * per_layer


def test_a_plain_mlp_has_fewer_biases() -> None:
    plain = count(made_up(parts=("plain_mlp",))).total
    assert count(made_up(parts=("plain_mlp", "mlp_bias"))).total - plain == 4 * (256 + 64)


def test_norms_with_biases_are_twice_as_many_the_last_one_too() -> None:
    assert count(made_up(parts=("norm_bias",))).total - count(made_up()).total == 9 * 64


def test_logits_can_have_biases() -> None:
    assert count(made_up(parts=("logits_bias",))).total - count(made_up()).total == 1000


def test_learned_positions_are_a_table() -> None:
    longer = count(made_up(learned_positions=512)).total
    assert longer - count(made_up()).total == 512 * 64


def test_a_mixture_has_all_experts_and_uses_some() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=32, shared=1)
    mixture = count(made_up(experts=experts))
    attention = PLAIN_LAYER - 3 * 64 * 256
    expert = 3 * 64 * 32
    outside = 2 * TABLE + 64
    assert mixture.total == 4 * (attention + 9 * expert + 8 * 64) + outside
    assert mixture.active == 4 * (attention + 3 * expert + 8 * 64) + outside


def test_leading_layers_of_a_mixture_are_dense() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=32, leading_dense_layers=1)
    all_mixed = experts.model_copy(update={"leading_dense_layers": 0})
    difference = 3 * 64 * 256 - 8 * 3 * 64 * 32 - 8 * 64
    dense, mixed = count(made_up(experts=experts)), count(made_up(experts=all_mixed))
    assert dense.total - mixed.total == difference


def test_latent_attention_is_counted_by_its_projections() -> None:
    latent = LatentAttention(
        kv_lora_rank=32, rope_dimensions=4, q_lora_rank=16, nope_dimensions=8, value_dimensions=6
    )
    attention = 64 * 16 + 16 * 8 * 12 + 64 * 36 + 32 * 8 * 14 + 8 * 6 * 64 + 32 + 16
    without = PLAIN_LAYER - (64 * 64 + 2 * 64 * 16 + 64 * 64)
    assert count(made_up(latent=latent)).total == 4 * (attention + without) + 2 * TABLE + 64


@pytest.mark.parametrize("key", [key for key in MODELS if MODELS[key].parameters])
def test_the_count_is_the_published_one(key: str) -> None:
    assert count(MODELS[key]).total == pytest.approx(MODELS[key].parameters, rel=0.01)


def test_of_most_models_more_than_a_rounded_number_is_published() -> None:
    assert sum(model.parameters is None for model in MODELS.values()) < len(MODELS) / 10


@pytest.mark.parametrize(
    ("key", "billions"),
    [
        ("qwen3-30b-a3b", 3.35),
        ("qwen3-235b-a22b", 22.2),
        ("mixtral-8x7b", 12.9),
        ("deepseek-v3", 37.5),
    ],
)
def test_the_active_parameters_are_the_published_ones(key: str, billions: float) -> None:
    assert count(MODELS[key]).active / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("key", [key for key in MODELS if MODELS[key].experts is None])
def test_every_parameter_of_a_dense_model_is_active(key: str) -> None:
    assert count(MODELS[key]).active == count(MODELS[key]).total


@given(layers=st.integers(1, 100), more=st.integers(1, 100), intermediate=st.integers(1, 10_000))
def test_more_layers_have_more_parameters(layers: int, more: int, intermediate: int) -> None:
    fewer = count(made_up(layers=layers, intermediate=intermediate))
    assert count(made_up(layers=layers + more, intermediate=intermediate)).total > fewer.total


@pytest.mark.binaries
@pytest.mark.parametrize("key", MODELS)
def test_transformers_builds_as_many_parameters(key: str) -> None:
    """Within 1 % is asked for; they are equal."""
    assert count(MODELS[key]).total == _built()[key]


@cache
def _built() -> dict[str, int]:
    """All models of the catalog, built from its facts on the meta device: about 15 s."""
    environment = environment_folder("vllm", ROOT / REQUIREMENTS["vllm"], default_cache())
    python = environment / "bin" / "python"
    if not python.is_file():
        pytest.skip("no environment with transformers: run `slipway up` or `slipway test`")
    facts = {key: model.model_dump(mode="json") for key, model in MODELS.items()}
    run = subprocess.run(
        [python, SCRIPT], input=json.dumps(facts), capture_output=True, text=True, check=True
    )
    parameters: dict[str, int] = json.loads(run.stdout)["parameters"]
    return parameters
