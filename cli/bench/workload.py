"""What a model is asked: the user's prompts, the requests of a trace, or requests of the declared
load's lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.config.load import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request. With `chat` the model's chat template is applied to the text, else the text is
    continued as it is. With `whole_length` the answer has exactly `max_tokens`."""

    text: str
    max_tokens: int
    chat: bool = True
    system: str | None = None
    whole_length: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`source` says where the prompts come from; `load` is a trace's own rate and lengths.
    `renewed` makes other prompts of the same lengths for each round after the first."""

    prompts: Sequence[Prompt]
    source: str
    load: Load | None = None
    renewed: Callable[[int], Sequence[Prompt]] | None = None

    def asked(self, requests: int, *, after: int) -> Iterator[Prompt]:
        """The prompts in turn, from the one after so many others, in as many rounds as needed."""
        for place in range(after, after + requests):
            turn, number = divmod(place, len(self.prompts))
            prompts = self.renewed(turn) if self.renewed and turn else self.prompts
            yield prompts[number]

    @property
    def first(self) -> Prompt:
        """The question that is asked before and not counted: the last prompt, of round -1."""
        (prompt,) = self.asked(1, after=-1)
        return prompt
