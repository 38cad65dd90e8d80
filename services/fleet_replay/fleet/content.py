"""The common prefixes of a trace's prompts, as hashes of KV blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from simulator.core.sequence import Sequence

from fleet.trace import HASH_TOKENS, Request

_OWN = 1 << 40  # hashes reserved for one request's own blocks; more than a trace has ids


@dataclass(slots=True, eq=False, kw_only=True)
class TracedSequence(Sequence):
    """A request of a trace. Its text is unknown, but not which blocks it shares with others.

    `shared` has the hashes of its first blocks as ranges. The later blocks, including its answer's,
    take their hashes from `own`.
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
        ValueError: the block size does not divide the tokens of a hash id.
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
    """A session's text so far: all turns use the same run of blocks."""

    blocks: range
    tokens: int = 0

    def continued_by(self, request: Request) -> bool:
        """False if the prompt is too short to contain the conversation: then a new one begins."""
        return request.input_tokens >= self.tokens
