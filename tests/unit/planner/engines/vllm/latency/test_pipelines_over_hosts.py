"""A pipeline over hosts: the time of its stages, and at each boundary that of the link."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from slipway.config.document import Origin
from slipway.config.metal import MetalPool
from slipway.plan.fabric import FabricKind, FabricSpec
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.latency.longest_step import FullStep, on_processors_s
from slipway.planner.engines.vllm.latency.roofline import (
    Pass,
    decode,
    machine,
    pass_ms,
    pass_parts_ms,
    prefill,
)
from slipway.planner.hardware import Hardware, Network, replica_hardware
from slipway.planner.supply.metal import metal_supply
from slipway.planner.supply.supply import Supply
from tests.unit.planner.architectures import CATALOG

MODELS = st.sampled_from(["llama-3.1-8b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"])
DEVICES = st.sampled_from(["H100-80", "MI300X", "L40S", "L4"])
WORK = st.one_of(
    st.integers(1, 8192).map(prefill),
    st.integers(1, 8192).map(lambda context: decode(1, context=context)),
)
RATES = st.floats(0.1, 400)  # GB/s
LATENCIES = st.floats(0, 500)  # microseconds
KINDS = st.sampled_from(get_args(FabricKind))


def _ms(model: str, device: str, layout: Layout, work: Pass, network: Network | None) -> float:
    hardware = Hardware(
        accelerator_name=device, accelerator=CATALOG.accelerators[device], network=network
    )
    served = machine(CATALOG.models[model], hardware, layout=layout, precision=Precision())
    return pass_ms(served, work)


@given(
    model=MODELS,
    device=DEVICES,
    work=WORK,
    on_host=st.sampled_from([1, 2, 4, 8]),
    hosts=st.integers(2, 16),
    more=st.integers(1, 16),
    rate=RATES,
    latency_us=LATENCIES,
)
def test_more_hosts_never_make_a_single_requests_step_faster_than_its_stages_alone(
    model: str,
    device: str,
    work: Pass,
    on_host: int,
    hosts: int,
    more: int,
    rate: float,
    latency_us: float,
) -> None:
    network = Network(devices_per_node=on_host, gb_per_s=rate, latency_us=latency_us)
    few, many = (Layout(tensor=on_host, pipeline=count) for count in (hosts, hosts + more))
    stages_alone = _ms(model, device, Layout(tensor=on_host), work, None)
    over_few, over_many = (_ms(model, device, layout, work, network) for layout in (few, many))
    assert stages_alone < over_few < over_many


@given(model=MODELS, work=WORK, hosts=st.integers(2, 8), rate=RATES, latency_us=LATENCIES)
def test_each_boundary_between_hosts_adds_the_links_latency_and_what_its_rate_takes(
    model: str, work: Pass, hosts: int, rate: float, latency_us: float
) -> None:
    layout, free = (
        Layout(tensor=8, pipeline=hosts),
        Network(devices_per_node=8, gb_per_s=float("inf"), latency_us=0.0),
    )
    link = replace(free, gb_per_s=rate, latency_us=latency_us)
    activation_bytes = 2 * 2 * CATALOG.models[model].hidden * work.tokens
    each_ms = latency_us / 1000 + activation_bytes / (rate * 1e6)
    added = _ms(model, "H100-80", layout, work, link) - _ms(model, "H100-80", layout, work, free)
    assert abs(added - (hosts - 1) * each_ms) <= 1e-6 * max(1.0, added)


@given(
    first=KINDS,
    second=KINDS,
    gbps=st.floats(1, 3200),
    latency_us=LATENCIES,
    hosts=st.integers(2, 4),
    work=WORK,
)
def test_fabrics_differ_by_the_latency_and_the_rate_of_their_link_only(
    first: FabricKind,
    second: FabricKind,
    gbps: float,
    latency_us: float,
    hosts: int,
    work: Pass,
) -> None:
    layout = Layout(tensor=8, pipeline=hosts)

    def parts(kind: FabricKind, *, as_catalog: bool = False) -> object:
        supply = replace(_supply(), fabric=FabricSpec(kind=kind), network_gbps=gbps)
        link_us = CATALOG.fabrics[kind].latency_us if as_catalog else latency_us
        hardware = replica_hardware(replace(supply, link_latency_us=link_us), layout)
        served = machine(
            CATALOG.models["llama-3.1-405b"], hardware, layout=layout, precision=Precision()
        )
        return pass_parts_ms(served, work)

    assert parts(first) == parts(second)
    differ = CATALOG.fabrics[first].latency_us != CATALOG.fabrics[second].latency_us
    assert (parts(first, as_catalog=True) != parts(second, as_catalog=True)) is differ


@given(stages=st.integers(2, 16), rate=RATES, latency_us=LATENCIES)
def test_a_pipeline_on_processors_has_a_longer_step_by_its_links(
    stages: int, rate: float, latency_us: float
) -> None:
    model = CATALOG.models["smollm2-135m"]
    step = FullStep(batched_tokens=2048, max_model_len=2048, max_num_seqs=8, kv_tokens=20_000)
    network = Network(devices_per_node=1, gb_per_s=rate, latency_us=latency_us)
    alone = on_processors_s(model, step, threads=4)
    over = on_processors_s(model, step, threads=4, stages=stages, network=network)
    sent = 2 * model.hidden * (2048 + 8) * 4
    each_s = latency_us * 1e-6 + sent / (rate * 1e9)
    assert abs(over - alone - (stages - 1) * each_s) <= 1e-9 * max(1.0, over)


def _supply() -> Supply:
    pool = MetalPool(kind="metal", accelerator="H100-80", accelerators_per_node=8, nodes=4)
    supply = metal_supply("rack", pool, CATALOG, Origin(source="test"))
    assert isinstance(supply, Supply)
    return supply
