"""A replica's forward pass as four constants, the form that the simulator uses.

step = max(base, prefill_token x prompt tokens) + sequence x decoding sequences
       + context_token x tokens whose KV they read       (services/engine_sim/README.md)
"""

from __future__ import annotations

from slipway.config.calibration import StepTimes
from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.calibration import Calibration
from slipway.planner.engines.adapter import Operation
from slipway.planner.hardware import Hardware
from slipway.planner.wording import counted

from .roofline import decode, machine, pass_ms, prefill


def step_times(
    architecture: Architecture,
    hardware: Hardware | None,
    *,
    layout: Layout,
    precision: Precision,
    around: Operation,
    calibration: Calibration,
) -> tuple[StepTimes, str] | None:
    """The constants and their source: measured, else fitted to the roofline around an operating
    point.

    The roofline is not a straight line (a mixture of experts reads more weights for more
    sequences), so the constants hold only near `around`. None on processors without a calibration.
    """
    accelerator = None if hardware is None else hardware.accelerator
    measured = calibration.find(architecture, accelerator, layout=layout, precision=precision)
    if measured is not None and isinstance(measured.measurement, StepTimes):
        return measured.measurement, measured.source
    if hardware is None:
        return None
    source = (
        "roofline (planner/engines/vllm/latency/roofline.py), as straight lines around"
        f" {counted(round(around.sequences), 'sequence')} of {around.context:.0f} tokens"
        f" and prompts of {around.prompt_tokens:.0f}"
    )
    return _around(architecture, hardware, layout, precision, around), source


def _around(
    architecture: Architecture,
    hardware: Hardware,
    layout: Layout,
    precision: Precision,
    around: Operation,
) -> StepTimes:
    served = machine(architecture, hardware, layout=layout, precision=precision)
    sequences, context = max(2.0, around.sequences), around.context

    def decode_ms(batch: float, tokens: float) -> float:
        return pass_ms(served, decode(batch, context=tokens))

    many, one = decode_ms(sequences, context), decode_ms(1, context)
    longer = decode_ms(sequences, 2 * context)
    context_token_ms = max(0.0, (longer - many) / (sequences * context))
    per_sequence_ms = (many - one) / (sequences - 1)
    sequence_ms = max(0.0, per_sequence_ms - context_token_ms * context)
    return StepTimes(
        base_ms=one - sequence_ms - context_token_ms * context,
        prefill_token_ms=pass_ms(served, prefill(around.prompt_tokens)) / around.prompt_tokens,
        sequence_ms=sequence_ms,
        context_token_ms=context_token_ms,
    )
