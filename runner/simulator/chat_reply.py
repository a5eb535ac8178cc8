"""Bodies of chat completions: the plain reply with its nulls, stream chunks without unset fields."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any

from runner.simulator import tokenizer
from runner.simulator.chat_request import AcceptedRequest
from runner.simulator.sequence import Sequence

DONE = b"data: [DONE]\n\n"


def dumps(value: object) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + dumps(value) + b"\n\n"


def text_of(tokens: Iterable[int]) -> str:
    """Text of output tokens; special tokens are skipped, as vLLM does by default."""
    return "".join(tokenizer.piece_of(token) for token in tokens if token not in tokenizer.SPECIAL_TEXT)


@dataclass(slots=True)
class Reply:
    """What all bodies of one request share."""

    request: AcceptedRequest
    sequence: Sequence
    model: str
    fingerprint: str
    completion_details: bool  # the plain reply's usage has the key, with null
    prompt_details: bool
    per_request_metrics: bool
    identity: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(8)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def plain(self, tokens: Items[int]) -> dict[str, Any]:
        """The whole reply for a request without ``stream``."""
        ids = bool(self.request.body.return_token_ids)
        return {
            "id": self.identity,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": text_of(tokens),
                        "refusal": None,
                        "annotations": None,
                        "audio": None,
                        "function_call": None,
                        "reasoning": None,
                    },
                    "logprobs": None,
                    "finish_reason": self.sequence.finished,
                    "stop_reason": self.sequence.stop_reason,
                    "token_ids": list(tokens) if ids else None,
                    "routed_experts": None,
                }
            ],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
            "usage": {
                **self._usage(len(tokens)),
                "prompt_tokens_details": self._details(),
                **({"completion_tokens_details": None} if self.completion_details else {}),
            },
            "prompt_logprobs": None,
            "prompt_token_ids": self.request.prompt if ids else None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": self._metrics(len(tokens)),
        }

    def role_chunk(self, *, usage: bool) -> dict[str, Any]:
        """The first chunk, which carries the role and no text."""
        ids = self.request.prompt if self.request.body.return_token_ids else None
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        return {
            **self._head(),
            "choices": [choice],
            **({"usage": self._usage(0)} if usage else {}),
            "prompt_token_ids": ids,
            "prompt_text": None,
        }

    def chunk(
        self, tokens: Items[int], generated: int, *, last: bool, usage: bool, fingerprint: bool
    ) -> dict[str, Any]:
        """Tokens of one or more steps; `generated` counts all so far."""
        choice: dict[str, Any] = {"index": 0, "delta": {"content": text_of(tokens)}, "logprobs": None}
        choice["finish_reason"] = self.sequence.finished if last else None
        if last:
            choice["stop_reason"] = self.sequence.stop_reason
        choice["token_ids"] = list(tokens) if self.request.body.return_token_ids else None
        return {
            **self._head(),
            "choices": [choice],
            **({"usage": self._usage(generated)} if usage else {}),
            **({"system_fingerprint": self.fingerprint} if last and fingerprint else {}),
        }

    def usage_chunk(self, generated: int) -> dict[str, Any]:
        """The last chunk of a stream that was asked for usage."""
        usage: dict[str, Any] = self._usage(generated)
        details = self._details()
        if details:
            usage["prompt_tokens_details"] = details
        metrics = self._metrics(generated)
        return {
            **self._head(),
            "choices": [],
            "usage": usage,
            "system_fingerprint": self.fingerprint,
            **({"metrics": metrics} if metrics else {}),
        }

    def _head(self) -> dict[str, Any]:
        return {
            "id": self.identity,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
        }

    def _usage(self, generated: int) -> dict[str, int]:
        prompt = len(self.request.prompt)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + generated,
            "completion_tokens": generated,
        }

    def _details(self) -> dict[str, int] | None:
        if self.prompt_details and self.sequence.cached:
            return {"cached_tokens": self.sequence.cached}
        return None

    def _metrics(self, generated: int) -> dict[str, float] | None:
        sequence = self.sequence
        if not self.per_request_metrics or sequence.first_token_at is None:
            return None
        assert sequence.scheduled_at is not None
        assert sequence.last_token_at is not None
        decode = sequence.last_token_at - sequence.first_token_at
        whole = sequence.last_token_at - sequence.scheduled_at
        return {
            "time_to_first_token_ms": 1e3 * (sequence.first_token_at - sequence.scheduled_at),
            "generation_time_ms": 1e3 * whole,
            "queue_time_ms": 1e3 * max(0.0, sequence.scheduled_at - sequence.arrived_at),
            "mean_itl_ms": 1e3 * decode / (generated - 1) if generated > 1 else 0.0,
            "tokens_per_second": generated / whole if whole > 0 else 0.0,
        }
