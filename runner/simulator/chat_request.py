"""The body of ``POST /v1/chat/completions``: its schema, and what vLLM refuses in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from runner.simulator import chat_template, errors, log, tokenizer, wording
from runner.simulator.configuration import Configuration
from runner.simulator.errors import RequestError, bad_value
from runner.simulator.release import Release


class Message(BaseModel):
    """One message; content is a text or a list of text parts."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return _without_surrogates(self.content)
        parts = self.content or []
        return _without_surrogates("\n".join(str(part.get("text", "")) for part in parts))


class StreamOptions(BaseModel):
    """What usage a stream carries."""

    include_usage: bool | None = True
    continuous_usage_stats: bool | None = False


class ChatCompletionRequest(BaseModel):
    """The fields that the embedded engine reads. Unknown ones are ignored, as vLLM ignores them."""

    model_config = ConfigDict(extra="allow")
    messages: list[Message]
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = False
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    min_tokens: int = 0
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    request_id: str | None = None


# Fields of vLLM's request that would change the text, with the value that does not: to take them would be to lie.
_WITHOUT_EFFECT: Mapping[str, Any] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    **dict.fromkeys(
        ("allowed_token_ids", "bad_words", "prompt_logprobs", "tools", "structured_outputs", "use_beam_search")
    ),
    "response_format": {"type": "text"},
}


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request with its prompt's token ids and the tokens it may generate."""

    body: ChatCompletionRequest
    prompt: list[int]
    last_user_message: str
    max_tokens: int


def parse(body: bytes, content_type: str, release: Release) -> ChatCompletionRequest:
    """Raises RequestError for what is no JSON or does not fit the schema."""
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/json":
        raise errors.wrong_content_type(content_type)
    try:
        return ChatCompletionRequest.model_validate(json.loads(body))
    except json.JSONDecodeError as error:
        raise errors.not_json(error, release) from error
    except ValidationError as error:
        raise errors.from_validation(error, release) from error
    except UnicodeDecodeError as error:
        raise RequestError("There was an error parsing the body", kind="Bad Request") from error


def accept(body: ChatCompletionRequest, configuration: Configuration) -> AcceptedRequest:
    """Check the values against the engine. Raises RequestError as vLLM answers."""
    if body.model is not None and body.model not in configuration.served_model_names:
        raise errors.unknown_model(body.model, configuration.served_model_names, configuration.release)
    if body.stream_options is not None and not body.stream:
        raise RequestError("Stream options can only be defined when `stream=True`.", param="stream_options")
    max_tokens = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    limit = configuration.max_model_len
    if max_tokens is not None and max_tokens > limit:
        raise bad_value(
            f"max_tokens={max_tokens} cannot be greater than max_model_len=max_total_tokens={limit}. Please request "
            "fewer output tokens.",
            "max_tokens",
            max_tokens,
        )
    _check_sampling(body, max_tokens, drafting=configuration.speculation is not None)
    messages = [(message.role, message.text) for message in body.messages]
    characters = sum(len(text) for _, text in messages)
    asked, longest = max_tokens or 0, tokenizer.LONGEST_PIECE
    too_many = errors.too_many_characters(characters, longest, asked, limit, configuration.release)
    if too_many:
        raise too_many
    try:
        prompt = chat_template.render(messages)
    except ValueError as error:
        source = wording.of(configuration.release).source["template-error"]
        log.api("ERROR", source, errors.template_traceback(str(error)))
        raise RequestError(str(error)) from error
    if len(prompt) + (max_tokens or 1) > limit:
        raise bad_value(
            f"This model's maximum context length is {limit} tokens. However, you requested {asked} output "
            f"tokens and your prompt contains at least {len(prompt)} input tokens, for a total of at least "
            f"{len(prompt) + (max_tokens or 1)} tokens. Please reduce the length of the input prompt or "
            f"the number of requested output tokens.",
            "input_tokens",
            len(prompt),
        )
    users = [text for role, text in messages if role == "user"]
    return AcceptedRequest(body, prompt, users[-1] if users else "", max_tokens or limit - len(prompt))


def _check_sampling(body: ChatCompletionRequest, max_tokens: int | None, *, drafting: bool) -> None:
    if max_tokens is not None and max_tokens < 1:
        raise bad_value(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens", max_tokens)
    if body.temperature is not None and body.temperature < 0:
        raise bad_value(f"temperature must be non-negative, got {body.temperature}.", "temperature", body.temperature)
    if body.top_p is not None and not 0 < body.top_p <= 1:
        raise bad_value(f"top_p must be in (0, 1], got {body.top_p}.", "top_p", body.top_p)
    if body.min_tokens < 0:
        raise bad_value(
            f"min_tokens must be greater than or equal to 0, got {body.min_tokens}.",
            "min_tokens",
            body.min_tokens,
        )
    if max_tokens is not None and body.min_tokens > max_tokens:
        raise bad_value(
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}.",
            "min_tokens",
            body.min_tokens,
        )
    # Temperature 0 resets min_p before it is looked at.
    min_p = 0.0 if body.temperature == 0 else (body.min_p or 0.0)
    if drafting and (min_p > 0 or body.logit_bias):
        raise RequestError(
            "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )
    if body.n != 1 or body.stop or body.logprobs:
        raise RequestError("The embedded engine does not simulate n > 1, stop strings or logprobs.")
    if body.temperature:
        raise RequestError(
            "The embedded engine has greedy texts only: send temperature 0, or none.", param="temperature"
        )
    for name, without in _WITHOUT_EFFECT.items():
        value = (body.model_extra or {}).get(name)
        if value not in (None, without):
            raise RequestError(f"The embedded engine does not simulate {name}.", param=name)


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
