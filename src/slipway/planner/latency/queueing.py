"""How long requests take on a replica that serves many: continuous batching as a queue.

A step decodes one token of every running sequence; one that takes a prompt too is longer by
`extra`, the prompt's own pass less the reading of the weights, which both share (vLLM takes
prompts as they come):

    TPOT = step(C) + extra x C / output tokens      C sequences decoded together: while one of
                                                    them decodes, C prompts come
    C    = requests/s x output tokens x TPOT        Little's law
    TTFT = step(C) / 2 + wait + own                 the step in progress, its turn, its own step
    own  = prompt + step(C) - step(1)               its pass, and what the other sequences add
    wait = rho x own / (2 (1 - rho))                M/D/1: Pollaczek-Khinchine
    rho  = requests/s x prompt

At the 95th percentile the wait is that of an exponential tail with the same mean, the step in
progress counts whole, and C is that of a Poisson distribution. The host's time between steps is
not in here; only a calibration knows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

Z95 = 1.6449  # standard deviations at the 95th percentile of the normal distribution
TAIL = 0.05
# Share of the time for prompts: with more of them their queue is longer than these formulas say.
MOST_PROMPT_SHARE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Times of one replica for requests of given lengths.

    It computes `prompts_at_once` in `prompt_ms`. `steps` are (sequences, milliseconds of a decode
    step), ascending, from one sequence on.
    """

    prompt_ms: float
    prompts_at_once: int
    steps: tuple[tuple[float, float], ...]
    output_tokens: float
    most_sequences: float  # that the engine and its KV cache allow
    ttft_correction: float = 1.0  # measured over computed

    @property
    def prompt_s(self) -> float:
        """The replica's time for each prompt, were it to do nothing else."""
        return self.prompt_ms / self.prompts_at_once / 1000

    @property
    def extra_ms(self) -> float:
        """By how much each prompt makes a step longer."""
        return max(0.0, self.prompt_ms - self.steps[0][1]) / self.prompts_at_once

    def step_ms(self, sequences: float) -> float:
        """Linear between the known points, in proportion beyond them."""
        (low, low_ms), *others = self.steps
        if sequences <= low:
            return low_ms
        for high, high_ms in others:
            if sequences <= high:
                return low_ms + (high_ms - low_ms) * (sequences - low) / (high - low)
            low, low_ms = high, high_ms
        return low_ms * sequences / low

    def tpot_ms(self, sequences: float) -> float:
        """Of the mean request while so many sequences decode."""
        return self.step_ms(sequences) + self.extra_ms * sequences / self.output_tokens

    def requests_per_s(self, sequences: float) -> float:
        """The load that keeps so many sequences decoding."""
        return 1000 * sequences / (self.output_tokens * self.tpot_ms(sequences))

    def ttft_ms(self, sequences: float, requests_per_s: float) -> float:
        """Of the mean request."""
        rho = requests_per_s * self.prompt_s
        own_ms = self._own_step_ms(sequences)
        wait_ms = rho * own_ms / self.prompts_at_once / (2 * (1 - rho))
        in_progress_ms = min(1.0, sequences) * self.step_ms(sequences) / 2
        return self.ttft_correction * (in_progress_ms + wait_ms + own_ms)

    def tpot_p95_ms(self, sequences: float) -> float:
        return self.tpot_ms(sequences_p95(sequences))

    def ttft_p95_ms(self, sequences: float, requests_per_s: float) -> float:
        """Whoever waits, waits wait / rho on average: P(wait > t) = rho exp(-t rho / wait)."""
        rho, most = requests_per_s * self.prompt_s, sequences_p95(sequences)
        own_ms = self._own_step_ms(most)
        wait_if_any_ms = own_ms / self.prompts_at_once / (2 * (1 - rho))
        wait_ms = wait_if_any_ms * math.log(rho / TAIL) if rho > TAIL else 0.0
        in_progress_ms = min(1.0, most) * self.step_ms(most)
        return self.ttft_correction * (in_progress_ms + wait_ms + own_ms)

    def slower(self, *, prompt: float, step: float) -> Replica:
        """The same with prompts and decode steps that take so many times as long."""
        return replace(
            self,
            prompt_ms=prompt * self.prompt_ms,
            steps=tuple((sequences, step * ms) for sequences, ms in self.steps),
        )

    def _own_step_ms(self, sequences: float) -> float:
        """Of a prompt: its pass, and what the sequences that decode in the same step add."""
        return self.prompt_ms + self.step_ms(sequences) - self.steps[0][1]


def sequences_p95(mean: float) -> float:
    """The 95th percentile of a Poisson distribution, by the normal one."""
    return mean + Z95 * math.sqrt(mean)
