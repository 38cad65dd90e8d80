"""Paged KV memory with a prefix cache.

The rules are those of vLLM's block pool: every block has a reference count; a block without
references stays readable under its content hash until it is reused; the least recently released
block is reused first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockPool:
    """`capacity` blocks, each holding the keys and values of a fixed number of tokens."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a KV cache needs at least one block, got {capacity}")
        self.capacity = capacity
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(capacity))
        self._references = [0] * capacity
        self._hash_of: list[int | None] = [None] * capacity
        self._block_of: dict[int, int] = {}
        self._withheld: list[int] = []

    @property
    def free_blocks(self) -> int:
        """Blocks that can be handed out now, cached content included."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks that are held or withheld, 0 to 1."""
        return 1 - len(self._free) / self.capacity

    def find_prefix(self, hashes: Iterable[int]) -> list[int]:
        """Blocks of the longest cached prefix; they are not held until `hold`."""
        found = []
        for content_hash in hashes:
            block = self._block_of.get(content_hash)
            if block is None:
                break
            found.append(block)
        return found

    def can_hold(self, cached: Sequence[int], new_blocks: int) -> bool:
        """Whether `hold(cached)` and then `allocate(new_blocks)` would both succeed."""
        revived = sum(1 for block in cached if self._references[block] == 0)
        return len(self._free) - revived >= new_blocks

    def hold(self, cached: Sequence[int]) -> None:
        """Take a reference on blocks that `find_prefix` returned."""
        for block in cached:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks, forgetting what the least recently released ones cached."""
        if count > len(self._free):
            raise ValueError(f"asked for {count} blocks, {len(self._free)} are free")
        # A prompt has hundreds of blocks: the work for each is kept short.
        take, hash_of, references = self._free.popitem, self._hash_of, self._references
        taken = []
        for _ in range(count):
            block, _ = take(last=False)
            if hash_of[block] is not None:
                self._forget(block)
            references[block] = 1
            taken.append(block)
        return taken

    def publish(self, blocks: Sequence[int], hashes: Sequence[int]) -> None:
        """Make full blocks findable. The first block with a given content is kept."""
        block_of, hash_of = self._block_of, self._hash_of
        for block, content_hash in zip(blocks, hashes, strict=True):
            if content_hash not in block_of and hash_of[block] is None:
                block_of[content_hash] = block
                hash_of[block] = content_hash

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference each. The end of a sequence is reused before its beginning."""
        free, references = self._free, self._references
        for block in reversed(blocks):
            left = references[block] - 1
            if left < 0:
                raise ValueError(f"block {block} was released more often than it was held")
            references[block] = left
            if left == 0:
                free[block] = None

    def withhold_free(self) -> None:
        """Take every free block out of use: the fault `kv_full`."""
        while self._free:
            block, _ = self._free.popitem(last=False)
            self._forget(block)
            self._withheld.append(block)

    def return_withheld(self) -> None:
        """Undo `withhold_free`."""
        self._free.update(dict.fromkeys(self._withheld))
        self._withheld.clear()

    def check(self) -> None:
        """Raise AssertionError when a block is lost, double or miscounted."""
        held = {block for block, count in enumerate(self._references) if count > 0}
        free, withheld = set(self._free), set(self._withheld)
        if min(self._references) < 0:
            raise AssertionError("a reference count is negative")
        if held & free or held & withheld or free & withheld:
            raise AssertionError("a block is in two places")
        if len(held) + len(free) + len(self._withheld) != self.capacity:
            raise AssertionError("a block is lost")
        hashes = {
            block: content for block, content in enumerate(self._hash_of) if content is not None
        }
        if {block: content for content, block in self._block_of.items()} != hashes:
            raise AssertionError("the two directions of the prefix cache disagree")

    def _forget(self, block: int) -> None:
        content_hash = self._hash_of[block]
        if content_hash is not None:
            del self._block_of[content_hash]
            self._hash_of[block] = None
