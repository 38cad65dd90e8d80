"""One request inside the engine: its tokens, its progress and its KV blocks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """`computed` counts tokens whose keys and values are in memory, prompt and output alike.

    The newest token of a running sequence is known but not computed: decoding one token means
    computing the previous one.
    """

    prompt: tuple[int, ...] | range  # a range: only their number matters
    max_tokens: int
    output_token: Callable[[int], int]  # index of an output token -> its token id
    state: State = State.WAITING
    computed: int = 0
    generated: int = 0
    cached_tokens: int | None = None  # prompt tokens found in the prefix cache when first admitted
    blocks: list[int] = field(default_factory=list)
    published: int = 0  # full blocks already offered to the prefix cache
    _hashes: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens known so far."""
        return len(self.prompt) + self.generated

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        prompt = len(self.prompt)
        output = range(max(start - prompt, 0), max(stop - prompt, 0))
        return (*self.prompt[start:stop], *map(self.output_token, output))

    def block_hashes(self, count: int, block_size: int) -> list[int]:
        """Hashes of the first `count` blocks; each covers everything before it as well."""
        while len(self._hashes) < count:
            index = len(self._hashes)
            parent = self._hashes[-1] if self._hashes else 0
            start = index * block_size
            self._hashes.append(hash((parent, self.tokens(start, start + block_size))))
        return self._hashes[:count]
