"""What bounds vLLM's batch."""

from typing import Final

BATCH_LIMIT: Final = "max-num-seqs"
"""The argument that bounds the requests that run at once: above it, every concurrency runs one and the same batch."""
