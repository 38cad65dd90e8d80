"""How far the times of forward passes may be from the roofline's, by accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.planner.hardware import Hardware

from .kernels import eight_bit_tflops

Band = tuple[float, float]

# Measured pass time over the roofline's: 9 of 10 passes of aiconfigurator 0.8.0's held-out rows lie
# between these bounds (test_aiconfigurator_latency.py). Prompts multiplied in 8 bits have a higher
# upper bound: it holds what their layers take outside a compiled model (kernels.RECORDED),
# and a checkpoint that took twice the time of 16 bits on a B200 (vllm-project/vllm#49723).
PREFILL_BAND: Band = (0.86, 1.51)
PREFILL_BAND_8BIT: Band = (0.86, 2.0)
DECODE_BAND: Band = (0.77, 1.27)
# The bounds of other accelerators are multiplied by how far the share of the peak that large matrix
# products reach may be from the fitted 0.79: it is 0.99 on the A10G and 0.47 on the L4
# (catalog/accelerators.yaml, sustained_bf16_tflops). For decoding, which is bound by bandwidth, no
# such measurement is known, and the same factors are used.
UNVALIDATED: Band = (0.80, 1.68)

ROOFLINE = "roofline (planner/engines/vllm/latency/roofline.py)"
HELD_OUT = (
    "bars hold 90 % of aiconfigurator 0.8.0's held-out passes on H100, A100, L40S, H200, B200"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBars:
    """The lowest and the highest time over the estimate, of prompts and of decode steps, and where
    the estimate and its bars come from."""

    prefill: Band
    decode: Band
    source: str


def error_bars(hardware: Hardware, weights: str) -> ErrorBars:
    """For weights of a scheme; wider on accelerators whose times were never compared with measured
    ones."""
    in_16_bits = eight_bit_tflops(hardware.accelerator, weights) is None
    prefill = PREFILL_BAND if in_16_bits else PREFILL_BAND_8BIT
    if hardware.accelerator.validated is not None:
        return ErrorBars(prefill=prefill, decode=DECODE_BAND, source=f"{ROOFLINE}; {HELD_OUT}")
    return ErrorBars(
        prefill=_widened(prefill),
        decode=_widened(DECODE_BAND),
        source=f"{ROOFLINE}; not validated on {hardware.accelerator_name}: wider bars",
    )


def _widened(band: Band) -> Band:
    return band[0] * UNVALIDATED[0], band[1] * UNVALIDATED[1]
