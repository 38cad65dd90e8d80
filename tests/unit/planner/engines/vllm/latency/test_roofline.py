"""Times of forward passes against what can be worked out by hand, and against common sense."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.architectures.parameters import count
from slipway.config.catalog import load_catalog
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.latency.kernels import Efficiencies, Kernels
from slipway.planner.engines.vllm.latency.roofline import (
    Machine,
    Pass,
    decode,
    machine,
    pass_ms,
    pass_parts_ms,
    prefill,
)
from slipway.planner.hardware import Hardware, Network
from tests.unit.plan.samples import ROOT

CATALOG = load_catalog(ROOT)
H100 = Hardware(accelerator_name="H100-80", accelerator=CATALOG.accelerators["H100-80"])
PERFECT = Efficiencies(
    launch_us=0,
    bandwidth=1,
    matrix=1,
    matrix_8bit=1,
    quantize_bytes=0,
    prompt_attention=1,
    prompt_attention_launch_us=0,
    decode_attention=1,
    decode_attention_launch_us=0,
    experts=1,
    experts_half=1e9,
    experts_launch_us=0,
    link=1,
    all_reduce_launch_us=0,
    pcie_pair=1,
    pcie_shared=1,
)
MODELS = st.sampled_from(sorted(CATALOG.models))
ACCELERATORS = st.sampled_from(sorted(CATALOG.accelerators))


def _hardware(accelerator: str, network: Network | None = None) -> Hardware:
    return Hardware(
        accelerator_name=accelerator,
        accelerator=CATALOG.accelerators[accelerator],
        network=network,
    )


def _machine(
    model: str = "llama-3.1-8b",
    accelerator: str = "H100-80",
    *,
    layout: Layout | None = None,
    weights: str = "bf16",
    kv: str = "bf16",
    efficiencies: Efficiencies | None = None,
) -> Machine:
    return machine(
        CATALOG.models[model],
        _hardware(accelerator),
        layout=layout or Layout(),
        precision=Precision(weights=weights, kv=kv),
        efficiencies=efficiencies or Efficiencies(),
    )


def test_one_token_on_a_perfect_device_takes_the_reading_of_the_weights() -> None:
    architecture = CATALOG.models["llama-3.1-8b"]
    counted = count(architecture)
    read_bytes = 2 * (counted.total - counted.embeddings / 2)  # one of the two tables is read
    ms = pass_ms(_machine(efficiencies=PERFECT), decode(1, context=0))
    assert ms == pytest.approx(1000 * read_bytes / 3.35e12, rel=0.01)


def test_a_long_prompt_on_a_perfect_device_takes_two_operations_per_weight_and_token() -> None:
    architecture = CATALOG.models["llama-3.1-8b"]
    counted = count(architecture)
    tokens = 4096
    weights = counted.total - counted.embeddings
    attention = 2 * architecture.layers * architecture.heads * architecture.head_dim * tokens**2
    parts = pass_parts_ms(_machine(efficiencies=PERFECT), prefill(tokens))
    computed = parts["projections"] + parts["mlp"] + parts["attention"]
    # Less the activation function, which moves memory.
    computed -= 1000 * architecture.layers * 3 * architecture.intermediate * tokens * 2 / 3.35e12
    assert computed == pytest.approx(1000 * (2 * weights * tokens + attention) / 989e12, rel=0.001)


def test_the_kv_cache_is_read_once_a_step() -> None:
    served = _machine(efficiencies=PERFECT)
    more = pass_ms(served, decode(64, context=5000)) - pass_ms(served, decode(64, context=1000))
    assert more == pytest.approx(1000 * 64 * 4000 * 128 * 1024 / 3.35e12, rel=1e-6)


def test_an_fp8_cache_is_read_in_half_the_time() -> None:
    def reading_ms(kv: str) -> float:
        served = _machine(kv=kv, efficiencies=PERFECT)
        return pass_parts_ms(served, decode(64, context=4096))["attention"]

    assert reading_ms("fp8") == pytest.approx(reading_ms("bf16") / 2)


def test_latent_attention_reads_its_latents_whatever_the_tensor_parallelism() -> None:
    def reading_ms(tensor: int) -> float:
        served = _machine(
            "deepseek-v3",
            "H200",
            layout=Layout(tensor=tensor),
            weights="fp8",
            efficiencies=replace(PERFECT, prompt_attention=1e6),  # no arithmetic
        )
        return pass_parts_ms(served, decode(32, context=4096))["attention"]

    assert reading_ms(8) == reading_ms(1)
    assert reading_ms(1) == pytest.approx(1000 * 32 * 4096 * 61 * 576 * 2 / 4.8e12)


def test_a_sliding_window_bounds_what_its_layers_read() -> None:
    model = CATALOG.models["gemma-3-27b"]
    assert model.sliding_window is not None
    served = _machine("gemma-3-27b", efficiencies=PERFECT)
    more = [
        pass_ms(served, decode(1, context=context + 1000))
        - pass_ms(served, decode(1, context=context))
        for context in (0, model.sliding_window.tokens)
    ]
    full = model.layers - model.sliding_window.layers
    assert more[1] / more[0] == pytest.approx(full / model.layers, rel=0.001)


def test_a_cached_prefix_saves_its_products_but_not_the_attention_to_it() -> None:
    served = _machine()
    whole, rest = pass_ms(served, prefill(4096)), pass_ms(served, prefill(1024, cached=3072))
    alone = pass_ms(served, prefill(1024))
    assert alone < rest < whole


def test_a_prompt_in_chunks_attends_to_as_much_as_a_whole_one() -> None:
    served = _machine("gemma-3-27b", efficiencies=PERFECT)
    whole = pass_parts_ms(served, prefill(6000))["attention"]
    pieces = [prefill(1500, cached=cached) for cached in (0, 1500, 3000, 4500)]
    assert sum(pass_parts_ms(served, piece)["attention"] for piece in pieces) == pytest.approx(
        whole
    )


def test_few_tokens_use_few_experts() -> None:
    served = _machine("qwen3-30b-a3b", efficiencies=PERFECT)
    one, many = (pass_parts_ms(served, decode(n, context=0))["experts"] for n in (1, 512))
    assert many / one == pytest.approx(128 / 8, rel=0.3)


def test_without_direct_links_tensor_parallelism_can_make_a_prompt_slower() -> None:
    one, four = (
        pass_ms(_machine(accelerator="L40S", layout=Layout(tensor=n)), prefill(4096))
        for n in (1, 4)
    )
    assert four > one


def test_four_bit_weights_are_read_faster_and_multiplied_no_faster() -> None:
    awq, bf16 = _machine(weights="awq"), _machine()
    assert pass_ms(awq, decode(1, context=100)) < pass_ms(bf16, decode(1, context=100)) / 2
    assert pass_ms(awq, prefill(8192)) == pytest.approx(pass_ms(bf16, prefill(8192)), rel=0.02)


def test_8_bit_products_need_a_device_that_has_them() -> None:
    a100 = _hardware("A100-80")
    assert Kernels.of(a100, "fp8").matrix_rate == Kernels.of(a100, "bf16").matrix_rate
    assert Kernels.of(H100, "fp8").matrix_rate > Kernels.of(H100, "bf16").matrix_rate


@given(
    MODELS,
    st.sampled_from(
        sorted(name for name, each in CATALOG.accelerators.items() if each.fp8_tflops is not None)
    ),
    st.builds(
        Layout,
        tensor=st.sampled_from([1, 2, 4, 8]),
        pipeline=st.sampled_from([1, 2, 4]),
        data=st.sampled_from([1, 2]),
    ),
    st.sampled_from(["fp8", "fp8-block"]),
    st.floats(1, 32_000),
)
def test_8_bits_never_make_a_prompt_slower_where_the_device_multiplies_them(
    model: str, accelerator: str, layout: Layout, weights: str, tokens: float
) -> None:
    eight, sixteen = (
        pass_ms(_machine(model, accelerator, layout=layout, weights=each), prefill(tokens))
        for each in (weights, "bf16")
    )
    assert eight <= sixteen * 1.0001


def test_a_device_that_throttles_multiplies_no_faster_than_was_measured() -> None:
    architecture = CATALOG.models["llama-3.1-8b"]
    weights = count(architecture).total - count(architecture).embeddings
    for accelerator in ("L4", "MI300X"):
        device = CATALOG.accelerators[accelerator]
        assert device.sustained_bf16_tflops is not None
        parts = pass_parts_ms(_machine(accelerator=accelerator), prefill(8192))
        reached = 2 * weights * 8192 / (parts["projections"] + parts["mlp"]) * 1e3 / 1e12
        assert 0.9 * device.sustained_bf16_tflops < reached <= device.sustained_bf16_tflops


def test_a_device_that_was_measured_above_the_fitted_share_keeps_the_share() -> None:
    a10g = CATALOG.accelerators["A10G"]
    assert a10g.sustained_bf16_tflops is not None
    assert Kernels.of(_hardware("A10G"), "bf16").matrix_rate == pytest.approx(
        Efficiencies().matrix * a10g.bf16_tflops * 1e12
    )


def test_two_small_machines_lose_the_time_of_their_ethernet_between_stages() -> None:
    """Two tensors of 4096 tokens x 4096 values x 2 bytes at the 2.5 Gbit/s that a g6.xlarge
    sustains, and tens of milliseconds even at its burst of 10."""
    sent_bytes = 2 * 4096 * 4096 * 2
    for gbps in (2.5, 10):
        pair = _hardware("L4", Network(devices_per_node=1, gb_per_s=gbps / 8, latency_us=14))
        served = machine(
            CATALOG.models["llama-3.1-8b"],
            pair,
            layout=Layout(pipeline=2),
            precision=Precision(),
        )
        hop_ms = pass_parts_ms(served, prefill(4096))["pipeline"]
        assert hop_ms == pytest.approx(1000 * sent_bytes / (gbps / 8 * 1e9), rel=0.01)
        assert hop_ms > 50


def test_only_hops_to_another_node_use_the_network() -> None:
    def hops_ms(network: Network | None) -> float:
        served = machine(
            CATALOG.models["llama-3.1-70b"],
            _hardware("H100-80", network),
            layout=Layout(tensor=4, pipeline=4),
            precision=Precision(),
        )
        return pass_parts_ms(served, prefill(4096))["pipeline"]

    network_ms = 1000 * 2 * 8192 * 4096 * 2 / 12.5e9
    one_node, two_nodes, four_nodes = (
        hops_ms(None),
        hops_ms(Network(devices_per_node=8, gb_per_s=12.5, latency_us=14)),
        hops_ms(Network(devices_per_node=4, gb_per_s=12.5, latency_us=14)),
    )
    assert one_node < 2
    assert two_nodes - one_node == pytest.approx(network_ms, rel=0.05)
    assert four_nodes - one_node == pytest.approx(3 * network_ms, rel=0.05)


def test_each_hop_to_another_node_waits_for_the_network_however_little_it_sends() -> None:
    def hops_ms(network: Network | None) -> float:
        served = machine(
            CATALOG.models["llama-3.1-70b"],
            _hardware("H100-80", network),
            layout=Layout(tensor=8, pipeline=4),
            precision=Precision(),
        )
        return pass_parts_ms(served, decode(1, context=1))["pipeline"]

    fast = Network(devices_per_node=8, gb_per_s=1e9, latency_us=14)
    assert hops_ms(fast) - hops_ms(None) == pytest.approx(3 * 0.014, rel=0.05)


def test_direct_links_carry_stages_faster_than_slots() -> None:
    def hop_ms(accelerator: str) -> float:
        served = _machine(accelerator=accelerator, layout=Layout(pipeline=2))
        return pass_parts_ms(served, prefill(8192))["pipeline"]

    assert hop_ms("H100-80") < hop_ms("L40S") / 10


def test_experts_over_two_nodes_wait_for_the_network() -> None:
    layout = Layout(tensor=8, data=2, expert=16)

    def all_reduce_ms(network: Network | None) -> float:
        served = machine(
            CATALOG.models["deepseek-v3"],
            _hardware("H200", network),
            layout=layout,
            precision=Precision(weights="fp8"),
        )
        return pass_parts_ms(served, prefill(4096))["all-reduce"]

    ethernet = Network(devices_per_node=8, gb_per_s=12.5, latency_us=14)
    assert all_reduce_ms(ethernet) > 5 * all_reduce_ms(None)


def test_pipeline_stages_add_only_their_hops() -> None:
    one, two = (_machine(layout=Layout(pipeline=n)) for n in (1, 2))
    hop = pass_parts_ms(two, prefill(2048))["pipeline"]
    assert hop > 0
    assert pass_ms(two, prefill(2048)) - pass_ms(one, prefill(2048)) == pytest.approx(hop)


def test_data_parallel_ranks_of_a_dense_model_divide_a_batch() -> None:
    one, two = (_machine(layout=Layout(data=n)) for n in (1, 2))
    assert pass_ms(two, decode(64, context=512)) == pytest.approx(
        pass_ms(one, decode(32, context=512))
    )


@given(MODELS, ACCELERATORS, st.floats(1, 16000), st.floats(1, 4), st.floats(0, 8000))
def test_more_work_never_takes_less_time(
    model: str, accelerator: str, tokens: float, more: float, context: float
) -> None:
    served = _machine(model, accelerator)
    assert pass_ms(served, prefill(tokens)) <= pass_ms(served, prefill(tokens * more)) * 1.0001
    few, many = (decode(n, context=context) for n in (tokens, tokens * more))
    assert pass_ms(served, few) <= pass_ms(served, many) * 1.0001


@given(MODELS, st.floats(1, 8192), st.floats(0, 256), st.floats(0, 8192))
def test_a_prompt_and_a_batch_in_one_step_are_faster_than_in_two(
    model: str, tokens: float, sequences: float, context: float
) -> None:
    served = _machine(model)
    both = Pass(prompts=1, prompt_tokens=tokens, decodes=sequences, context_tokens=context)
    apart = pass_ms(served, prefill(tokens)) + pass_ms(served, decode(sequences, context=context))
    assert pass_ms(served, both) <= apart * 1.0001


@given(MODELS, st.floats(1, 8192), st.floats(1, 256), st.floats(0, 8192), st.floats(1.0, 3.0))
def test_a_device_with_more_of_everything_is_never_slower(
    model: str, tokens: float, sequences: float, context: float, factor: float
) -> None:
    accelerator = H100.accelerator
    better = replace(
        H100,
        accelerator=accelerator.model_copy(
            update={
                "bandwidth_gb_per_s": accelerator.bandwidth_gb_per_s * factor,
                "bf16_tflops": accelerator.bf16_tflops * factor,
            }
        ),
    )
    for work in (prefill(tokens), decode(sequences, context=context)):
        times = [
            pass_ms(
                machine(CATALOG.models[model], device, layout=Layout(), precision=Precision()),
                work,
            )
            for device in (H100, better)
        ]
        assert times[1] <= times[0] * 1.0001
