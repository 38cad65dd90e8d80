"""Each case is a sentence about what vLLM 0.32 does with a replica."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.catalog import Architecture, LinearAttention, MixtureOfExperts
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.parallelism import layout_problems
from slipway.planner.engines.vllm.validity import replica_problems
from tests.unit.planner.architectures import ACCELERATORS, MODELS, made_up

DEVICES_PER_NODE = 8
TURING = ACCELERATORS["A10G"].model_copy(update={"compute_capability": 7.5})
DEVICES = ACCELERATORS | {"turing": TURING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`refused` are parts of the messages, one for each; none where the replica runs."""

    says: str
    model: str | Architecture
    accelerator: str = "H100-80"
    layout: Layout = field(default_factory=Layout)
    weights: str | None = None  # as published
    kv: str = "bf16"
    refused: tuple[str, ...] = ()


HYBRID = made_up(
    heads=16,
    kv_heads=2,
    linear_attention=LinearAttention(
        layers=3, key_heads=4, value_heads=4, key_dimensions=8, value_dimensions=8
    ),
)
SIX_EXPERTS = made_up(experts=MixtureOfExperts(count=6, per_token=2, intermediate=64))
WIDE = {"heads": 8, "kv_heads": 8, "head_dim": 64, "hidden": 512, "intermediate": 1024}

CASES = (
    Case(
        says="Phi-4 has 40 heads and 10 KV heads, but TP 5 cannot divide its vocabulary",
        model="phi-4",
        layout=Layout(tensor=5),
        refused=("a vocabulary of 100,352 (padded to a multiple of 64) cannot be divided by 5",),
    ),
    Case(
        says="SmolLM2-360M has 15 heads and 5 KV heads, but TP 5 cannot divide its vocabulary",
        model="smollm2-360m",
        layout=Layout(tensor=5),
        refused=("a vocabulary of 49,152",),
    ),
    Case(
        says="SmolLM2-360M at TP 3 has a vocabulary that can be divided, but 5 KV heads",
        model="smollm2-360m",
        layout=Layout(tensor=3),
        refused=("5 KV heads", "an intermediate size of 2560"),
    ),
    Case(
        says="a vocabulary is padded to a multiple of 64 before it is divided",
        model=made_up(vocabulary=1, heads=64, kv_heads=1),
        layout=Layout(tensor=8),
    ),
    Case(
        says="a vocabulary of 65 becomes 128, which TP 8 divides",
        model=made_up(vocabulary=65),
        layout=Layout(tensor=8),
    ),
    Case(
        says="Qwen2.5-72B AWQ runs at TP 2, since its MLPs are padded from 29,568 to 29,696",
        model="qwen2.5-72b",
        layout=Layout(tensor=2),
        weights="awq",
    ),
    Case(
        says="Qwen2.5-72B GPTQ runs at TP 8: 29,696 / 8 is 29 groups of 128",
        model="qwen2.5-72b",
        layout=Layout(tensor=8),
        weights="gptq",
    ),
    Case(
        says="Qwen2.5-72B in FP8 blocks is not padded: TP 2 would cut a block",
        model="qwen2.5-72b",
        layout=Layout(tensor=2),
        weights="fp8-block",
        refused=("an intermediate size of 29568 over 2 devices is 14784",),
    ),
    Case(
        says="Qwen2.5-72B in FP8 without blocks runs at TP 8",
        model="qwen2.5-72b",
        layout=Layout(tensor=8),
        weights="fp8",
    ),
    Case(
        says="TP 16 on nodes of 8 is no mistake of the model, but Slipway does not plan it",
        model="llama-3.1-405b",
        layout=Layout(tensor=16),
        refused=(
            "Slipway keeps a tensor-parallel group inside a node of 8 devices: use TP 8 with PP 2",
        ),
    ),
    Case(
        says="TP 8 and PP 2 on nodes of 8 is the way to span them",
        model="llama-3.1-405b",
        layout=Layout(tensor=8, pipeline=2),
        weights="fp8",
    ),
    Case(
        says="TP 5 of a model with 32 heads is a mistake of the model in any node",
        model="llama-3.1-8b",
        layout=Layout(tensor=5),
        refused=(
            "32 attention heads cannot be divided by 5",
            "8 KV heads can be neither divided over nor replicated on 5 devices",
            "a vocabulary of 128,256",
            "an intermediate size of 14336",
        ),
    ),
    Case(
        says="TP 8 of 4 KV heads copies each of them to two devices",
        model="qwen3-30b-a3b",
        layout=Layout(tensor=8),
    ),
    Case(
        says="a dense model is not quantized to mxfp4 while loading",
        model="llama-3.1-8b",
        weights="mxfp4",
        refused=("quantizing while loading is not planned",),
    ),
    Case(
        says="nor is a mixture that is published in bf16",
        model="mixtral-8x7b",
        weights="mxfp4",
        refused=("quantizing while loading is not planned",),
    ),
    Case(says="experts that are published in mxfp4 run", model="gpt-oss-20b", weights="mxfp4"),
    Case(
        says="weights that are published in mxfp4 cannot be made FP8",
        model="gpt-oss-20b",
        weights="fp8",
        refused=("fp8 gains nothing: the model is published in mxfp4",),
    ),
    Case(
        says="a KV cache in float32 belongs to a model in float32",
        model="llama-3.1-8b",
        kv="fp32",
        refused=("KV cache in float32 only where the model runs in float32",),
    ),
    Case(
        says="a model in float32 has a KV cache in float32",
        model="llama-3.1-8b",
        weights="fp32",
        kv="fp32",
    ),
    Case(
        says="on Trainium nothing else matters: other reasons are another engine's",
        model="phi-4",
        accelerator="trn1",
        layout=Layout(tensor=16),
        weights="mxfp4",
        refused=("not served here: trn1",),
    ),
    Case(
        says="on Inferentia a model that would fit is not served either",
        model="smollm2-135m",
        accelerator="inf2",
        refused=("not served here: inf2",),
    ),
    Case(says="AMD is served by vLLM too", model="qwen2.5-7b", accelerator="MI300X"),
    Case(
        says="8 experts over 16 devices leave devices without one",
        model="mixtral-8x7b",
        layout=Layout(tensor=2, data=8, expert=16),
        refused=("8 experts are too few for 16 devices to have one each",),
    ),
    Case(
        says="6 experts over 4 devices are two on some and one on others",
        model=SIX_EXPERTS,
        layout=Layout(tensor=4, expert=4),
    ),
    Case(
        says="an expert that would cut its FP8 blocks gets smaller ones",
        model="qwen3-30b-a3b",
        layout=Layout(tensor=4),
        weights="fp8-block",
    ),
    Case(
        says="smaller FP8 blocks of experts need FP8 arithmetic, which the A100 lacks",
        model="qwen3-30b-a3b",
        accelerator="A100-80",
        layout=Layout(tensor=4),
        weights="fp8-block",
        refused=("without FP8 arithmetic no kernel takes experts of 192 on each device",),
    ),
    Case(
        says="whole FP8 blocks of experts run on an A100, unpacked to 16 bits",
        model="qwen3-30b-a3b",
        accelerator="A100-80",
        layout=Layout(tensor=2),
        weights="fp8-block",
    ),
    Case(
        says="experts cut below 32 have no blocks left",
        model=made_up(
            **WIDE
            | {"head_dim": 256, "experts": MixtureOfExperts(count=8, per_token=2, intermediate=128)}
        ),
        layout=Layout(tensor=8),
        weights="fp8-block",
        refused=("an expert's intermediate size of 128 over 8 devices is 16",),
    ),
    Case(
        says="one KV head of 64 on a device is half an FP8 block",
        model=made_up(**WIDE | {"heads": 16}),
        layout=Layout(tensor=8),
        weights="fp8-block",
        refused=("keys of 64 on each device are not a multiple of the block of 128",),
    ),
    Case(
        says="two KV heads of 64 on a device are one FP8 block",
        model=made_up(**WIDE | {"heads": 16}),
        layout=Layout(tensor=4),
        weights="fp8-block",
    ),
    Case(
        says="FP8 blocks of latent attention are whole at TP 8",
        model="deepseek-v3",
        layout=Layout(tensor=8),
    ),
    Case(
        says="linear attention's heads are divided as well",
        model=HYBRID,
        layout=Layout(tensor=8),
        refused=("4 heads of linear attention cannot be divided by 8",),
    ),
    Case(
        says="linear attention runs where all heads can be divided",
        model=HYBRID,
        layout=Layout(tensor=4),
    ),
    Case(
        says="Turing has no bfloat16: vLLM casts weights to float16, which takes as many bytes",
        model="llama-3.1-8b",
        accelerator="turing",
    ),
    Case(
        says="Gemma is unstable in float16, so Turing runs it in float32 only",
        model="gemma-2-9b",
        accelerator="turing",
        refused=("it runs in float32 only",),
    ),
    Case(
        says="Gemma in float32 runs on Turing",
        model="gemma-2-9b",
        accelerator="turing",
        weights="fp32",
        kv="fp32",
    ),
    Case(
        says="mxfp4 does not run on Turing",
        model="gpt-oss-20b",
        accelerator="turing",
        refused=("mxfp4 from compute capability 8.0 on, not on 7.5",),
    ),
    Case(
        says="no kernel reads an FP8 KV cache on Turing",
        model="llama-3.1-8b",
        accelerator="turing",
        kv="fp8",
        refused=("an FP8 KV cache on compute capability 7.5",),
    ),
    Case(
        says="FlashInfer reads an FP8 KV cache on Ampere",
        model="llama-3.1-8b",
        accelerator="A10G",
        kv="fp8",
    ),
    Case(
        says="NVFP4 on Hopper is unpacked, not refused",
        model="llama-3.1-8b",
        weights="nvfp4",
    ),
    Case(
        says="FP8 on Ampere is unpacked, not refused",
        model="llama-3.1-8b",
        accelerator="A100-80",
        weights="fp8",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.says for case in CASES])
def test_a_replica_is_refused_for_what_vllm_refuses(case: Case) -> None:
    architecture = case.model if isinstance(case.model, Architecture) else MODELS[case.model]
    problems = replica_problems(
        architecture,
        case.accelerator,
        DEVICES[case.accelerator],
        layout=case.layout,
        precision=Precision(weights=case.weights or architecture.published_weights, kv=case.kv),
        devices_per_node=DEVICES_PER_NODE,
    )
    assert len(problems) == len(case.refused), problems
    for part, problem in zip(case.refused, problems, strict=True):
        assert part in problem


@given(vocabulary=st.integers(1, 300_000), tensor=st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
def test_a_power_of_two_up_to_64_divides_every_vocabulary(vocabulary: int, tensor: int) -> None:
    architecture = made_up(vocabulary=vocabulary, heads=64, kv_heads=64)
    problems = layout_problems(
        architecture, Layout(tensor=tensor), Precision(), devices_per_node=tensor
    )
    assert problems == ()
