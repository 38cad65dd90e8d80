"""What the prompts of a trace have in common, as hashes of KV blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from simulator.core.sequence import Sequence
from simulator.fleet.trace import HASH_TOKENS, Request

_OWN = 1 << 40  # hashes of one request's own blocks; no trace has as many ids


@dataclass(slots=True, eq=False, kw_only=True)
class TracedSequence(Sequence):
    """A request of a trace. Its text is not known, only which blocks equal those of others.

    `shared` are the hashes of its first blocks as ranges; the blocks after them, with what it
    generates, are hashes from `own` on.
    """

    shared: tuple[range, ...]
    own: range

    def block_hashes(self, count: int, block_size: int) -> list[int]:  # noqa: ARG002
        if len(self._hashes) < count:
            self._hashes = [each for blocks in self.shared for each in blocks]
            own = count - len(self._hashes)
            self._hashes += self.own[: max(0, own)]
        return self._hashes[:count]


def no_text(_index: int) -> int:
    raise AssertionError("the tokens of a recorded request are not known")


def sequences(requests: Iterable[Request], block_size: int) -> Iterator[TracedSequence]:
    """One sequence for each request, in order.

    Raises:
        ValueError: blocks do not divide what a hash id stands for.
    """
    if HASH_TOKENS % block_size:
        raise ValueError(f"blocks of {block_size} tokens do not divide {HASH_TOKENS}")
    conversations: dict[str, _Conversation] = {}
    for number, request in enumerate(requests):
        own = range(_OWN * (2 * number + 1), _OWN * (2 * number + 2))
        if request.session is not None:
            conversation = conversations.get(request.session)
            if conversation is None or not conversation.continued_by(request):
                conversation = conversations[request.session] = _Conversation(own)
            conversation.tokens = request.input_tokens + request.output_tokens
            own = conversation.blocks
        per_id = HASH_TOKENS // block_size
        full_blocks = request.input_tokens // block_size
        shared = [range(each * per_id, (each + 1) * per_id) for each in request.hash_ids]
        if shared:  # the last id may stand for fewer tokens
            shared[-1] = shared[-1][: full_blocks - per_id * (len(shared) - 1)]
        yield TracedSequence(
            prompt=range(request.input_tokens),
            max_tokens=request.output_tokens,
            output_token=no_text,
            shared=tuple(shared),
            own=own,
        )


@dataclass(slots=True)
class _Conversation:
    """A session's text so far: every turn reads and writes the same run of blocks."""

    blocks: range
    tokens: int = 0

    def continued_by(self, request: Request) -> bool:
        """Not when the prompt is too short to hold all that was said: a new conversation then."""
        return request.input_tokens >= self.tokens
