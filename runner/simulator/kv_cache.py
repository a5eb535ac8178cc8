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
        self.prefix_caching = prefix_caching
        self.reset()

    def reset(self) -> None:
        """Forget everything; only valid while no request holds a block."""
        # In the order in which they are handed out.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, self.blocks))
        self._references = [0] * self.blocks
        self._hash_of: dict[int, int] = {}
        # Blocks of equal content are kept apart; the one published first is found first.
        self._blocks_of: dict[int, dict[int, None]] = {}

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
        if not self.prefix_caching:
            return
        size = self.block_size
        hashes = holding.hashes
        while (len(hashes) + 1) * size <= upto:
            at = len(hashes) * size
            parent = hashes[-1] if hashes else holding.salt
            hashes.append(hash((parent, tuple(tokens[at : at + size]))))

    def cached_prefix(self, holding: Holding, tokens: Sequence[int]) -> list[int]:
        """Cached blocks of a sequence's beginning. At least the last token is left to compute."""
        if not self.prefix_caching:
            return []
        self.hash_full_blocks(holding, tokens, len(tokens))
        found: list[int] = []
        for block_hash in holding.hashes[: (len(tokens) - 1) // self.block_size]:
            blocks = self._blocks_of.get(block_hash)
            if blocks is None:
                break
            found.append(next(iter(blocks)))
        return found

    def fits(self, cached: Sequence[int], tokens: int) -> bool:
        """Whether a request that holds nothing yet could be given blocks for `tokens` tokens, `cached` among them."""
        return self.blocks_for(tokens) - len(cached) + self._idle(cached) <= len(self._free)

    def _idle(self, cached: Sequence[int]) -> int:
        """Cached blocks that nobody holds: to use one takes it out of the free ones."""
        return sum(1 for block in cached if self._references[block] == 0)

    def take(self, holding: Holding, cached: Sequence[int], tokens: int) -> bool:
        """Give the request blocks for its first `tokens` tokens, `cached` ones first; False if they run
        out.
        """
        needed = self.blocks_for(tokens) - len(holding.blocks) - len(cached)
        if needed > len(self._free) - self._idle(cached):
            return False
        for block in cached:
            self._references[block] += 1
            self._free.pop(block, None)
            holding.blocks.append(block)
        for _ in range(needed):
            block, _none = self._free.popitem(last=False)
            self._forget(block)
            self._references[block] = 1
            holding.blocks.append(block)
        return True

    def _forget(self, block: int) -> None:
        block_hash = self._hash_of.pop(block, None)
        if block_hash is None:
            return
        blocks = self._blocks_of[block_hash]
        del blocks[block]
        if not blocks:
            del self._blocks_of[block_hash]

    def publish(self, holding: Holding, tokens: Sequence[int], upto: int) -> None:
        """Make the full blocks within the first `upto` tokens findable."""
        self.hash_full_blocks(holding, tokens, upto)
        if not self.prefix_caching:
            return
        for index in range(min(upto // self.block_size, len(holding.blocks)) - 1, -1, -1):
            block = holding.blocks[index]
            if block in self._hash_of:
                break
            self._hash_of[block] = holding.hashes[index]
            self._blocks_of.setdefault(holding.hashes[index], {})[block] = None

    def release(self, holding: Holding) -> None:
        """Give all blocks back, the last first, so that a prefix outlives its tail.

        Blocks that cannot be found again are used again before any that can.
        """
        for block in reversed(holding.blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if block not in self._hash_of:
                    self._free.move_to_end(block, last=False)
        holding.blocks.clear()
        holding.hashes.clear()
