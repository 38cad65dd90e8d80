"""The longest step of a plan: what an engine that works needs at most until a step ends.

The step computes as many prompt tokens as fit in it (max_num_batched_tokens), the last ones of
prompts of full length, while as many sequences decode as the plan has, whose tokens fill the KV
cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipway.architectures.parameters import count
from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.hardware import Hardware, Network

from .error_bars import error_bars
from .roofline import STAGE_TENSORS, Pass, decode, machine, pass_ms

# What a thread of a processor computes a second, in float32: three quarters of what was measured on
# 2026-11-28. A prompt of 2,040 tokens of SmolLM2-135M (6.9e11 operations) took 7.0 s of processor
# time on two threads of an AMD EPYC with AVX-512.
PROCESSOR_FLOPS_PER_THREAD = 75e9
FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FullStep:
    """Tokens of one data-parallel rank, and of the KV cache of all of them."""

    batched_tokens: int
    max_model_len: int
    max_num_seqs: int
    kv_tokens: int

    @property
    def prompt_tokens(self) -> int:
        """That one prompt adds: the whole prompt, or its last part."""
        return min(self.batched_tokens, self.max_model_len)

    @property
    def prompts(self) -> float:
        return self.batched_tokens / self.prompt_tokens

    @property
    def cached_tokens(self) -> int:
        """Of each prompt, before these."""
        return self.max_model_len - self.prompt_tokens


def on_devices_s(
    architecture: Architecture,
    hardware: Hardware,
    step: FullStep,
    *,
    layout: Layout,
    precision: Precision,
) -> float:
    """The roofline's time of its prompts and of its decoding sequences, one after the other, at the
    slow end of their error bars."""
    served = machine(architecture, hardware, layout=layout, precision=precision)
    bars = error_bars(hardware, precision.weights)
    sequences = layout.data * step.max_num_seqs
    prompts = Pass(
        prompts=layout.data * step.prompts,
        prompt_tokens=step.prompt_tokens,
        cached_tokens=step.cached_tokens,
    )
    context = min(step.max_model_len, step.kv_tokens / sequences)
    prompts_ms = pass_ms(served, prompts) * bars.prefill[1]
    decode_ms = pass_ms(served, decode(sequences, context=context)) * bars.decode[1]
    return (prompts_ms + decode_ms) / 1000


def on_processors_s(
    architecture: Architecture,
    step: FullStep,
    *,
    threads: int,
    stages: int = 1,
    network: Network | None = None,
) -> float:
    """Two operations per parameter and token, and in attention four per head dimension, token and
    token before it; decoding sequences add a token each. There is no roofline of processors.

    The stages of a pipeline, each with so many threads, compute one after the other, and each sends
    the step's activations to the next one over the network.
    """
    tokens = step.batched_tokens + step.max_num_seqs
    context = step.cached_tokens + step.prompt_tokens / 2
    heads = architecture.layers * architecture.heads * architecture.head_dim
    attention = 4 * heads * step.batched_tokens * context
    operations = 2 * count(architecture).active * tokens + attention
    computing_s = operations / (threads * PROCESSOR_FLOPS_PER_THREAD)
    if network is None:
        return computing_s
    sent = STAGE_TENSORS * architecture.hidden * tokens * FLOAT32_BYTES
    return computing_s + (stages - 1) * (
        network.latency_us * 1e-6 + sent / (network.gb_per_s * 1e9)
    )
