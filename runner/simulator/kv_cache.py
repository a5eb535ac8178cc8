"""KV cache blocks with prefix caching: full blocks are found again by a hash of all tokens up to their end.

Block 0 is never handed out (vLLM keeps a null block), so ``usage`` is used / (blocks - 1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Holding:
    """The blocks of one request and the hashes of its full ones."""

    salt: int = 0
    blocks: list[int] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)


class BlockPool:
    """`blocks` blocks of `block_size` tokens. With ``prefix_caching`` off nothing is ever found again."""

    def __init__(self, blocks: int, block_size: int, *, prefix_caching: bool) -> None:
        self.block_size = block_size
        self.blocks = blocks
        self._prefix_caching = prefix_caching
        self.reset()

    def reset(self) -> None:
        """Forget everything; only valid while no request holds a block."""
        # Least recently freed first: that one is evicted first.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, self.blocks))
        self._references = [0] * self.blocks
        self._hash_of: dict[int, int] = {}
        self._block_of: dict[int, int] = {}

    @property
    def free(self) -> int:
        """Blocks that can be handed out, cached ones included."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks held by requests, 0 to 1."""
        total = self.blocks - 1
        return (total - len(self._free)) / total if total else 0.0

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def hash_full_blocks(self, holding: Holding, tokens: Sequence[int], upto: int) -> None:
        """Extend the holding's hashes over every block that is full within the first `upto` tokens."""
        if not self._prefix_caching:
            return
        size = self.block_size
        hashes = holding.hashes
        while (len(hashes) + 1) * size <= upto:
            at = len(hashes) * size
            parent = hashes[-1] if hashes else holding.salt
            hashes.append(hash((parent, tuple(tokens[at : at + size]))))

    def cached_prefix(self, holding: Holding, tokens: Sequence[int]) -> list[int]:
        """Cached blocks of a sequence's beginning. At least the last token is left to compute."""
        if not self._prefix_caching:
            return []
        self.hash_full_blocks(holding, tokens, len(tokens))
        found: list[int] = []
        for block_hash in holding.hashes[: (len(tokens) - 1) // self.block_size]:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def take(self, holding: Holding, cached: Sequence[int], tokens: int) -> bool:
        """Give the request blocks for its first `tokens` tokens, `cached` ones first; False if they run
        out.
        """
        needed = self.blocks_for(tokens) - len(holding.blocks) - len(cached)
        out_of_free = sum(1 for block in cached if self._references[block] == 0)
        if needed > len(self._free) - out_of_free:
            return False
        for block in cached:
            self._references[block] += 1
            self._free.pop(block, None)
            holding.blocks.append(block)
        for _ in range(needed):
            block, _none = self._free.popitem(last=False)
            forgotten = self._hash_of.pop(block, None)
            if forgotten is not None and self._block_of.get(forgotten) == block:
                del self._block_of[forgotten]
            self._references[block] = 1
            holding.blocks.append(block)
        return True

    def publish(self, holding: Holding, tokens: Sequence[int], upto: int) -> None:
        """Make the full blocks within the first `upto` tokens findable."""
        self.hash_full_blocks(holding, tokens, upto)
        if not self._prefix_caching:
            return
        for index in range(min(upto // self.block_size, len(holding.blocks)) - 1, -1, -1):
            block = holding.blocks[index]
            if block in self._hash_of:
                break
            self._hash_of[block] = holding.hashes[index]
            self._block_of.setdefault(holding.hashes[index], block)

    def release(self, holding: Holding) -> None:
        """Give all blocks back, the last first, so that a prefix outlives its tail."""
        for block in reversed(holding.blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
        holding.blocks.clear()
        holding.hashes.clear()
