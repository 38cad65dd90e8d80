"""A replica's times for requests of given lengths: from the roofline, or from a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from slipway.config.calibration import ServingMeasurement, StepTimes
from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.latency.queueing import Replica
from slipway.planner.hardware import Hardware

from .roofline import Pass, decode, machine, pass_ms

BATCHES = (1.0, 4.0, 16.0, 64.0, 256.0)  # step times are interpolated between these
FAR = 1e6  # sequences: the far end of a straight line


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Lengths of the mean request, and how many sequences the replica can hold."""

    input_tokens: float
    output_tokens: float
    most_sequences: float

    @property
    def context(self) -> float:
        """Tokens of a sequence halfway through its output."""
        return self.input_tokens + self.output_tokens / 2


# The roofline's replica for given requests; None on processors.
Roofline = Callable[[Requests], Replica | None]


@lru_cache(maxsize=8192)
def roofline_replica(
    architecture: Architecture,
    hardware: Hardware,
    requests: Requests,
    *,
    layout: Layout,
    precision: Precision,
) -> Replica:
    """Each data-parallel rank computes one prompt at a time, stage after stage. While decoding, the
    batch is split into as many parts as there are pipeline stages."""
    served = machine(architecture, hardware, layout=layout, precision=precision)
    most = max(1.0, requests.most_sequences)
    batches = [batch for batch in BATCHES if batch < most]

    def step_ms(sequences: float) -> float:
        part = max(1.0, sequences / layout.pipeline)
        return pass_ms(served, decode(part, context=requests.context))

    def prompts_ms(prompts: int) -> float:
        return pass_ms(served, Pass(prompts=prompts, prompt_tokens=requests.input_tokens))

    prompt_ms = prompts_ms(layout.data)
    return Replica(
        prompt_ms=prompt_ms,
        next_prompt_ms=prompts_ms(2 * layout.data) - prompt_ms,
        prompts_at_once=layout.data * layout.pipeline,
        steps=tuple((batch, step_ms(batch)) for batch in (*batches, most)),
        output_tokens=requests.output_tokens,
        most_sequences=requests.most_sequences,
    )


def measured_replica(
    measurement: ServingMeasurement | StepTimes, requests: Requests, roofline: Roofline
) -> Replica:
    """A replica with the measured times."""
    if isinstance(measurement, StepTimes):
        return _from_step_times(measurement, requests)
    return _from_serving(measurement, requests, roofline)


def _from_step_times(times: StepTimes, requests: Requests) -> Replica:
    per_sequence = times.sequence_ms + times.context_token_ms * requests.context
    return Replica(
        prompt_ms=max(times.base_ms, times.prefill_token_ms * requests.input_tokens),
        next_prompt_ms=times.prefill_token_ms * requests.input_tokens,
        prompts_at_once=1,
        steps=tuple((batch, times.base_ms + per_sequence * batch) for batch in (1.0, FAR)),
        output_tokens=requests.output_tokens,
        most_sequences=requests.most_sequences,
    )


def _from_serving(seen: ServingMeasurement, requests: Requests, roofline: Roofline) -> Replica:
    """The roofline's replica scaled to the measured TPOT, with its TTFT corrected likewise: at the
    measured load it reproduces the measurement.

    Without a roofline a prompt takes its share of the measured TTFT, and a step takes the measured
    TPOT, increasing in proportion to the sequences.
    """
    sequences = seen.requests_per_s * seen.output_tokens * seen.tpot_ms / 1000
    of_seen = replace(requests, input_tokens=seen.input_tokens, output_tokens=seen.output_tokens)
    then, now = roofline(of_seen), roofline(requests)
    if then is None or now is None:
        then = Replica(
            prompt_ms=seen.ttft_ms,
            next_prompt_ms=seen.ttft_ms,
            prompts_at_once=1,
            steps=((max(1.0, sequences), seen.tpot_ms),),
            output_tokens=seen.output_tokens,
            most_sequences=requests.most_sequences,
        )
        prompt_ms = seen.ttft_ms * requests.input_tokens / seen.input_tokens
        now = replace(
            then,
            prompt_ms=prompt_ms,
            next_prompt_ms=prompt_ms,
            output_tokens=requests.output_tokens,
        )
    ratio = seen.tpot_ms / then.at(sequences).tpot_ms
    then, now = then.slower(prompt=ratio, step=ratio), now.slower(prompt=ratio, step=ratio)
    return replace(now, ttft_correction=seen.ttft_ms / then.at(sequences).ttft_ms)
