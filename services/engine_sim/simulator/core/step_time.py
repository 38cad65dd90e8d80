"""How long a forward pass takes: constants and sources in profiles.json.

    step = max(base, prefill_token x prefill tokens)
           + sequence x decoding sequences + context_token x tokens whose KV they read

`base` is the time to read the weights once, which every pass does. A prefill of many tokens is
bound by arithmetic instead, hence the maximum and not a sum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.core.scheduler import Step


class UnknownProfileError(Exception):
    """There is no profile with that name; the message lists the known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Constants of one accelerator with one model. All times are for one forward pass."""

    name: str
    kv_bytes_per_token: int
    base_ms: float
    prefill_token_ms: float
    sequence_ms: float
    context_token_ms: float
    source: str
    date: str

    def step_ms(self, step: Step) -> float:
        return self.pass_ms(step.prefill_tokens, step.decode_sequences, step.context_tokens)

    def pass_ms(self, prefill_tokens: int, decode_sequences: int, context_tokens: int) -> float:
        weights_or_prefill_ms = max(self.base_ms, self.prefill_token_ms * prefill_tokens)
        return (
            weights_or_prefill_ms
            + self.sequence_ms * decode_sequences
            + self.context_token_ms * context_tokens
        )


def load_profile(path: Path, *, profile: str, architecture: str = "") -> Profile:
    """The row called `profile`, or else `<profile>-<architecture>`, of profiles.json.

    Raises:
        UnknownProfileError: there is no such row.
    """
    rows: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text("utf-8"))["profiles"]
    name = profile if profile in rows or not architecture else f"{profile}-{architecture}"
    if name not in rows:
        known = ", ".join(sorted(rows))
        raise UnknownProfileError(f"no profile {name!r} in {path.name}; use one of: {known}")
    row = rows[name]
    return Profile(
        name=name,
        kv_bytes_per_token=int(row["kv_bytes_per_token"]),
        base_ms=float(row["base_ms"]),
        prefill_token_ms=float(row["prefill_token_ms"]),
        sequence_ms=float(row["sequence_ms"]),
        context_token_ms=float(row["context_token_ms"]),
        source=str(row["source"]),
        date=str(row["date"]),
    )
