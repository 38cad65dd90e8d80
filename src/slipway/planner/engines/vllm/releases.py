"""What differs between releases of vLLM in the memory that they take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """From version `since` on.

    `logit_bytes` is the sampler's peak for one sequence and one word of the vocabulary.
    `counts_graphs` says whether CUDA graphs are taken from the KV cache, or from the memory that
    the utilization leaves. `keeps_expert_buffers` says whether buffers of experts stay allocated
    while the sampler runs.
    """

    since: tuple[int, int]
    logit_bytes: int
    counts_graphs: bool
    keeps_expert_buffers: bool = False


# A logit in 16 bits, its float32 copy, its probability and a random number (random_sample in
# vllm/v1/sample/ops/topk_topp_sampler.py); top-k and top-p are a Triton kernel in place.
_IN_PLACE = 2 + 4 + 4 + 4
# Before 0.17 they sorted: besides these a sorted value, its 64-bit index, its probability, their
# sum, a mask and the value put back.
_SORTED = _IN_PLACE + 4 + 8 + 4 + 4 + 1 + 4

RELEASES = (
    Release(since=(0, 0), logit_bytes=_SORTED, counts_graphs=False),
    Release(since=(0, 17), logit_bytes=_IN_PLACE, counts_graphs=False),
    Release(since=(0, 21), logit_bytes=_IN_PLACE, counts_graphs=True, keeps_expert_buffers=True),
)
NEWEST = RELEASES[-1]


def release_of(version: str) -> Release:
    """Of a version such as "0.19.1"."""
    major, minor = map(int, version.split(".")[:2])
    return next(each for each in reversed(RELEASES) if each.since <= (major, minor))
