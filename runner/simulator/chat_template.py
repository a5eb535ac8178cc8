"""The chat template: ChatML, with a default system message when the conversation brings none.

``<|im_start|>role\\ncontent<|im_end|>\\n`` for each message, then ``<|im_start|>assistant\\n``.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.simulator import tokenizer

DEFAULT_SYSTEM = "You are the embedded engine of an experiment runner. You are a helpful assistant."

_NEWLINE = tokenizer.encode("\n")


def render(messages: Sequence[tuple[str, str]], *, generation_prompt: bool = True) -> list[int]:
    """Prompt token ids of (role, content) messages.

    Raises ValueError for an empty conversation, in the words that vLLM's clients see.
    """
    if not messages:
        raise ValueError("Cannot apply chat template to an empty conversation. Provide at least one message.")
    if messages[0][0] != "system":
        messages = [("system", DEFAULT_SYSTEM), *messages]
    ids: list[int] = []
    for role, content in messages:
        ids += [tokenizer.IM_START, *tokenizer.encode(f"{role}\n{content}"), tokenizer.IM_END, *_NEWLINE]
    if generation_prompt:
        ids += [tokenizer.IM_START, *tokenizer.encode("assistant\n")]
    return ids
