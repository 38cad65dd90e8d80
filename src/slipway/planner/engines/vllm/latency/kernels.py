"""Time of one kernel on one device: a launch, then its arithmetic or its memory traffic, whichever
takes longer.

    kernel = launch + max(operations / (share x peak), bytes / (share x bandwidth))

This is the roofline of S. Williams et al. (CACM 52(4), 2009) with a launch. The shares are
`EFFICIENCIES`: they do not depend on the model, and on the device only through its rates. Where the
power limit keeps a device's matrix products below their share, all its arithmetic is slower by as
much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from slipway.config.catalog import Accelerator
from slipway.planner.hardware import Hardware
from slipway.planner.quantization import SCHEMES

VALUE_BYTES = 2  # activations, and the matrices that no scheme packs

# Schemes that multiply in 8 bits where the device can; the others unpack to 16 bits first.
# nvfp4 multiplies in 4 bits on Blackwell, a rate the catalog does not have: counted as 8.
EIGHT_BIT_SCHEMES = frozenset({"fp8", "fp8-block", "int8", "nvfp4"})

# GB/s of a x16 slot, both directions together: PCI-SIG's transfer rates.
PCIE_GB_PER_S = {"PCIe3": 32.0, "PCIe4": 64.0, "PCIe5": 128.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiencies:
    """The share of a device's rates that kernels reach, and their fixed costs.

    Fitted by bench/aiconfigurator/latency_fit.py to the tuning rows of
    tests/unit/planner/engines/vllm/latency/aiconfigurator_latency.json and to nothing else, except
    for the conversions to 8 bits: times of vLLM's kernels on H100, A100 and L40S in the databases
    of aiconfigurator 0.8.0.
    """

    launch_us: float = 6.5  # of one kernel
    bandwidth: float = 0.82  # share of the memory bandwidth, reading weights and activations
    matrix: float = 0.79  # share of the peak arithmetic of a matrix product in 16 bits
    matrix_8bit: float = 0.51
    # Memory traffic per activation that is converted to 8 bits before a product. None in a compiled
    # model, where the kernel before the product writes 8 bits at once: vLLM fuses norms and
    # activation functions with the conversion, or leaves it to Inductor (vllm/config/vllm.py,
    # enable_norm_fusion and enable_act_fusion). That of attention's output is neglected.
    quantize_bytes: float = 0.0
    # The same for the experts, which convert in a kernel of their own: read, reduced to its scale,
    # read again, written (moe_kernel_quantize_input in vllm/model_executor/layers/fused_moe).
    experts_quantize_bytes: float = 5.0
    prompt_attention: float = 0.72  # share of the peak arithmetic
    prompt_attention_launch_us: float = 50.0
    decode_attention: float = 0.84  # share of the bandwidth, reading the KV cache
    decode_attention_launch_us: float = 18.0
    # Share of the peak arithmetic in the experts' grouped products with few experts, and the number
    # of experts at which it has halved.
    experts: float = 0.72
    experts_half: float = 66.0
    experts_launch_us: float = 4.0
    link: float = 0.61  # share of a direct link in an all-reduce
    all_reduce_launch_us: float = 7.5
    pcie_pair: float = 0.585  # share of a slot in an all-reduce of two devices without direct links
    pcie_shared: float = 0.47  # share of one slot that more than two such devices share


EFFICIENCIES = Efficiencies()

# As aiconfigurator timed linear layers: outside a compiled model, where the conversion is several
# kernels: read, reduced to its scale, read again, written, with intermediates in 32 bits
# (collector/vllm/collect_gemm.py). The constants were fitted with these 19 bytes.
RECORDED = replace(EFFICIENCIES, quantize_bytes=19.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The kernels of one device for weights of one scheme.

    Launches are seconds, rates are operations or bytes per second that kernels reach. Methods
    return seconds.
    """

    launch_s: float
    attention_launch_s: float
    decode_attention_launch_s: float
    experts_launch_s: float
    all_reduce_launch_s: float
    bandwidth: float
    kv_bandwidth: float
    matrix_rate: float
    matrix_rate_16bit: float
    attention_rate: float
    experts_rate: float
    experts_half: float
    devices_per_node: int | None  # None where all are on one node
    network: float  # of a node, one direction; infinite where all devices are on one
    network_latency_s: float  # of one message over it, besides what it sends
    link: float | None  # direct, one direction; None without
    slot_pair: float
    slot_shared: float
    weight_bytes: float
    expert_bytes: float
    quantize_bytes: float
    experts_quantize_bytes: float

    @classmethod
    def of(
        cls, hardware: Hardware, weights: str, efficiencies: Efficiencies = EFFICIENCIES
    ) -> Kernels:
        """`weights` is a scheme of slipway.planner.quantization."""
        share, scheme = efficiencies, SCHEMES[weights]
        accelerator, network = hardware.accelerator, hardware.network
        bandwidth = accelerator.bandwidth_gb_per_s * 1e9
        clock = _sustained_clock(accelerator, share)
        peak_16bit = clock * accelerator.bf16_tflops * 1e12
        peak_8bit = clock * (eight_bit_tflops(accelerator, weights) or 0.0) * 1e12
        slot = PCIE_GB_PER_S.get(accelerator.link, PCIE_GB_PER_S["PCIe4"]) / 2 * 1e9
        direct = None if accelerator.link in PCIE_GB_PER_S else accelerator.link_gb_per_s
        return cls(
            launch_s=share.launch_us * 1e-6,
            attention_launch_s=share.prompt_attention_launch_us * 1e-6,
            decode_attention_launch_s=share.decode_attention_launch_us * 1e-6,
            experts_launch_s=share.experts_launch_us * 1e-6,
            all_reduce_launch_s=share.all_reduce_launch_us * 1e-6,
            bandwidth=share.bandwidth * bandwidth,
            kv_bandwidth=share.decode_attention * bandwidth,
            matrix_rate=share.matrix_8bit * peak_8bit if peak_8bit else share.matrix * peak_16bit,
            matrix_rate_16bit=share.matrix * peak_16bit,
            attention_rate=share.prompt_attention * peak_16bit,
            experts_rate=share.experts * (peak_8bit or peak_16bit),
            experts_half=share.experts_half,
            devices_per_node=None if network is None else network.devices_per_node,
            network=math.inf if network is None else network.gb_per_s * 1e9,
            network_latency_s=0.0 if network is None else network.latency_us * 1e-6,
            link=None if direct is None else share.link * direct / 2 * 1e9,
            slot_pair=share.pcie_pair * slot,
            slot_shared=share.pcie_shared * slot,
            weight_bytes=scheme.bytes_per_parameter("linear"),
            expert_bytes=scheme.bytes_per_parameter("expert"),
            quantize_bytes=share.quantize_bytes if peak_8bit else 0.0,
            experts_quantize_bytes=share.experts_quantize_bytes if peak_8bit else 0.0,
        )

    def product(self, *, rows: float, columns: float, depth: float) -> float:
        """rows x depth activations times a depth x columns matrix of the scheme's weights."""
        weights = columns * depth
        traffic = self.weight_bytes * weights + VALUE_BYTES * rows * (columns + depth)
        quantizing = self.quantize_bytes * rows * depth / self.bandwidth
        arithmetic = 2 * rows * weights / self.matrix_rate
        return self.launch_s + quantizing + max(arithmetic, traffic / self.bandwidth)

    def product_16bit(self, *, rows: float, columns: float, depth: float) -> float:
        """The same with a matrix that no scheme packs: the output head, a router."""
        weights = columns * depth
        traffic = VALUE_BYTES * (weights + rows * (columns + depth))
        arithmetic = 2 * rows * weights / self.matrix_rate_16bit
        return self.launch_s + max(arithmetic, traffic / self.bandwidth)

    def vectors(self, values: float) -> float:
        """An operation on each of `values`, read or written: norms, activation functions."""
        return self.launch_s + VALUE_BYTES * values / self.bandwidth

    def prompt_attention(self, operations: float) -> float:
        """Attention of new tokens to all earlier ones, which is bound by arithmetic."""
        return self.attention_launch_s + operations / self.attention_rate

    def decode_attention(self, operations: float, kv_bytes: float) -> float:
        """Attention of one new token of each sequence; reads `kv_bytes` of the cache."""
        longest = max(operations / self.attention_rate, kv_bytes / self.kv_bandwidth)
        return self.decode_attention_launch_s + longest

    def experts(
        self,
        *,
        inputs: float,
        rows: float,
        columns: float,
        depth: float,
        matrices: int,
        count: int,
        touched: float,
    ) -> float:
        """`rows` activations, each through the `matrices` (depth x columns) of one of `count`
        experts; together they use `touched` of them. Before they are routed they are `inputs`.

        Arithmetic and reading add up, because each expert is read for only a few rows.
        """
        weights = matrices * columns * depth
        rate = self.experts_rate / (1 + count / self.experts_half)
        traffic = touched * self.expert_bytes * weights
        traffic += self.experts_quantize_bytes * (inputs * depth + rows * columns)
        return self.experts_launch_s + 2 * rows * weights / rate + traffic / self.bandwidth

    def all_reduce(self, devices: int, values: float) -> float:
        """A ring: every device sends 2 (n - 1) / n of the `values`. Zero for one device."""
        if devices == 1:
            return 0.0
        sent = VALUE_BYTES * values * 2 * (devices - 1) / devices
        return self.all_reduce_launch_s + sent / self._ring_bandwidth(devices)

    def all_gather(self, devices: int, values: float) -> float:
        """A ring: every device sends (n - 1) / n of the `values`. Zero for one device."""
        if devices == 1:
            return 0.0
        sent = VALUE_BYTES * values * (devices - 1) / devices
        return self.all_reduce_launch_s + sent / self._ring_bandwidth(devices)

    def send_to_device(self, values: float) -> float:
        """To another device of the node."""
        link = self.slot_pair if self.link is None else self.link
        return self.all_reduce_launch_s + VALUE_BYTES * values / link

    def send_to_node(self, values: float) -> float:
        """What all devices of a node send to those of another one. The network's rate is the
        line's: what protocols take of it is not counted."""
        waiting = self.all_reduce_launch_s + self.network_latency_s
        return waiting + VALUE_BYTES * values / self.network

    def _ring_bandwidth(self, devices: int) -> float:
        """Bytes a second from each device to the next. Without direct links the ring shares the
        root complex and the path between the sockets; over nodes it is no faster than a node's
        network, which all its rings share."""
        if self.link is not None:
            within = self.link
        else:
            within = self.slot_pair if devices == 2 else self.slot_shared / devices
        over_nodes = self.devices_per_node is not None and devices > self.devices_per_node
        return min(within, self.network) if over_nodes else within


def eight_bit_tflops(accelerator: Accelerator, weights: str) -> float | None:
    """The peak of products with weights of this scheme, None where they are in 16 bits."""
    return accelerator.fp8_tflops if weights in EIGHT_BIT_SCHEMES else None


def _sustained_clock(accelerator: Accelerator, share: Efficiencies) -> float:
    """The share of its clock that the device sustains in matrix products, 1 where nothing lower was
    measured."""
    if accelerator.sustained_bf16_tflops is None:
        return 1.0
    return min(1.0, accelerator.sustained_bf16_tflops / (share.matrix * accelerator.bf16_tflops))
