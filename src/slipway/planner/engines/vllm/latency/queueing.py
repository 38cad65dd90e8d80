"""Request times on a busy replica: continuous batching as a queue.

A step decodes one token of every running sequence and takes the prompts that arrived during the
step before it (vLLM takes prompts as they arrive). More prompts make a step longer, and a longer
step leaves more prompts for the next one: a gated queue.

    a    = C / output tokens                        prompts per step on average, in a Poisson
                                                    distribution: C sequences decode together, and
                                                    while one of them decodes, C prompts arrive
    T    = step(C) without a prompt; with n of them step(C) - step(1) + first + (n - 1) next
    TPOT = E[T]
    C    = requests/s x output tokens x TPOT        Little's law
    TTFT = own + wait
    own  = first + step(C) - step(1)                its step, as if it were alone in it
    wait = E[T^2]/E[T] (1/2 + rho)                  the rest of the step in which it arrives, which
                                                    is longer than average, and the other prompts
                                                    that arrive in that step
    rho  = a next / E[T]                            share of the time for prompts

The moments of T follow from the number of prompts in a step, which is Poisson-distributed over the
length of the step before (Takagi, Queueing Analysis 1, 1991: the M/G/1 queue with gated service).
For the 95th percentiles, the wait is taken as a gamma distribution with the same mean and variance,
and C as a Poisson distribution. Not modelled: a prompt near or above the engine's token budget
takes several steps, and the host's time between steps is known only from a calibration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

Z95 = 1.6449  # standard deviations at the 95th percentile of the normal distribution
# Share of the time for prompts; above it, their queue is longer than these formulas say.
MOST_PROMPT_SHARE = 0.7
BISECTIONS = 12
MOST_BUSY = 1 - 1e-9  # keeps rounding from making it 1
WITHOUT_ROUNDS = 2  # iterations for the share of steps without a prompt; more change it by < 1 %


class Steps(NamedTuple):
    """An engine's steps. A step with n prompts takes `some + n later` ms, with `prompts` prompts on
    average; a share `without` of the steps has no prompt and takes `none` ms."""

    prompts: float
    none: float
    some: float
    later: float
    without: float
    mean_ms: float
    mean_ms2: float  # mean square

    def mean_ms3(self) -> float:
        """Mean cube."""
        prompts, none, some, later, without, mean, mean2 = self
        rate = prompts / mean
        prompts2 = prompts + rate**2 * mean2  # mean square of n
        mean3 = without * none**3 + (1 - without) * some**3
        mean3 += 3 * some * later * (some * prompts + later * prompts2)
        mean3 += later**3 * (prompts + 3 * rate**2 * mean2)
        return mean3 / (1 - min(MOST_BUSY, rate * later) ** 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Times of one replica for requests of given lengths.

    It computes `prompts_at_once` prompts in `prompt_ms`, and as many more in the same step in
    `next_prompt_ms`, which is less where reading the weights bounds the first. `steps` are
    (sequences, milliseconds of a decode step), ascending, starting at one sequence.
    """

    prompt_ms: float
    next_prompt_ms: float
    prompts_at_once: int
    steps: tuple[tuple[float, float], ...]
    output_tokens: float
    most_sequences: float  # allowed by the engine and its KV cache
    ttft_correction: float = 1.0  # measured over computed

    @property
    def prompt_s(self) -> float:
        """Seconds per prompt if the replica did nothing else."""
        return self.next_prompt_ms / self.prompts_at_once / 1000

    def step_ms(self, sequences: float) -> float:
        """Interpolated between the known points, proportional beyond them."""
        (low, low_ms), *others = self.steps
        if sequences <= low:
            return low_ms
        for high, high_ms in others:
            if sequences <= high:
                return low_ms + (high_ms - low_ms) * (sequences - low) / (high - low)
            low, low_ms = high, high_ms
        return low_ms * sequences / low

    def at(self, sequences: float) -> OperatingPoint:
        """The replica while `sequences` decode."""
        return OperatingPoint(self, sequences, self._steps(sequences))

    def under(self, requests_per_s: float) -> OperatingPoint:
        """The replica under a load; with all the sequences it can hold where it cannot keep up."""
        found, _ = bisected(
            self.most_sequences,
            lambda sequences: self.at(sequences).requests_per_s < requests_per_s,
        )
        return self.at(found)

    def slower(self, *, prompt: float, step: float) -> Replica:
        """The same replica with prompts and decode steps that many times as long."""
        return replace(
            self,
            prompt_ms=prompt * self.prompt_ms,
            next_prompt_ms=prompt * self.next_prompt_ms,
            steps=tuple((sequences, step * ms) for sequences, ms in self.steps),
        )

    def _steps(self, sequences: float) -> Steps:
        prompts = sequences / (self.output_tokens * self.prompts_at_once)
        later, none = self.next_prompt_ms, self.step_ms(sequences)
        some = self.prompt_ms + none - self.steps[0][1] - later
        none2, some2, of_prompts = none**2, some**2, prompts * later
        of_prompts2 = of_prompts * (2 * some + later)
        without = math.exp(-prompts)  # first guess: all steps have the same length
        for remaining in range(WITHOUT_ROUNDS, -1, -1):
            mean = without * none + (1 - without) * some + of_prompts
            rho = min(MOST_BUSY, of_prompts / mean)
            mean2 = (without * none2 + (1 - without) * some2 + of_prompts2) / (1 - rho * rho)
            # The prompts of a step are Poisson-distributed over the length of the step before; with
            # gamma-distributed lengths that is a negative binomial distribution.
            spread = (prompts / mean) ** 2 * (mean2 - mean * mean)
            if remaining and spread > 0:
                without = (1 + spread / prompts) ** (-prompts * prompts / spread)
        return Steps(prompts, none, some, later, without, mean, mean2)


class OperatingPoint(NamedTuple):
    """A replica while `sequences` decode together, on average."""

    replica: Replica
    sequences: float
    steps: Steps

    @property
    def tpot_ms(self) -> float:
        """Of the mean request."""
        return self.steps.mean_ms

    @property
    def requests_per_s(self) -> float:
        """The load that keeps this many sequences decoding."""
        return 1000 * self.sequences / (self.replica.output_tokens * self.tpot_ms)

    @property
    def ttft_ms(self) -> float:
        """Of the mean request."""
        wait_ms, _ = self._wait()
        return self.replica.ttft_correction * (wait_ms + self._own_step_ms(self.sequences))

    @property
    def tpot_p95_ms(self) -> float:
        return self.replica.at(sequences_p95(self.sequences)).tpot_ms

    @property
    def ttft_p95_ms(self) -> float:
        wait_ms = gamma_p95(*self._wait())
        own_ms = self._own_step_ms(sequences_p95(self.sequences))
        return self.replica.ttft_correction * (wait_ms + own_ms)

    def _own_step_ms(self, sequences: float) -> float:
        """A prompt's own pass, and what the sequences decoding in the same step add."""
        replica = self.replica
        return replica.prompt_ms + replica.step_ms(sequences) - replica.steps[0][1]

    def _wait(self) -> tuple[float, float]:
        """Mean and variance of a prompt's wait, its own step excluded, ms and ms^2."""
        steps, busy = self.steps, min(1.0, self.sequences)
        rho, later_ms = steps.prompts / steps.mean_ms * steps.later, self.replica.next_prompt_ms
        seen_ms, seen_ms2 = steps.mean_ms2 / steps.mean_ms, steps.mean_ms3() / steps.mean_ms
        mean_ms = seen_ms * (busy / 2 + rho)
        mean_ms2 = seen_ms2 * (busy / 3 + rho + rho**2) + later_ms * rho * seen_ms
        return mean_ms, mean_ms2 - mean_ms**2


def bisected(
    most: float, keeps: Callable[[float], bool], *, rounds: int = BISECTIONS
) -> tuple[float, float]:
    """The largest number of sequences found for which `keeps` holds, and the smallest for which it
    does not; both are at most `most`."""
    low, high = 0.0, 1.0
    for _ in range(rounds):  # in the square root: finer for few sequences
        middle = (low + high) / 2
        if keeps(most * middle**2):
            low = middle
        else:
            high = middle
    return most * low**2, most * high**2


def sequences_p95(mean: float) -> float:
    """The 95th percentile of a Poisson distribution, by normal approximation."""
    return mean + Z95 * math.sqrt(mean)


def gamma_p95(mean: float, variance: float) -> float:
    """The 95th percentile of a gamma distribution, by Wilson and Hilferty, PNAS 17 (1931)."""
    if mean == 0:
        return 0.0
    spread = variance / (9 * mean**2)  # 1 / (9 shape)
    return mean * (1 - spread + Z95 * math.sqrt(spread)) ** 3
