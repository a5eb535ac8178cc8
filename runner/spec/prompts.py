"""Prompts that live in files beside the spec."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runner.spec.model import Message, Prompt
from runner.spec.nearest import nearest
from runner.spec.problem import short

_MESSAGES = TypeAdapter(list[Message])


class PromptError(Exception):
    """A prompt file that cannot be used; the text says why."""


def read_prompt_file(path: Path) -> list[Message]:
    """A `.json` file holds a list of messages, or a request body with `messages`; any other file is one user message.

    Raises PromptError.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PromptError(f"there is no file {path}{did_you_mean(path)}") from None
    except UnicodeDecodeError:
        raise PromptError(f"{path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise PromptError(f"{short(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix != ".json":
        if not text.strip():
            raise PromptError(f"{path} is empty")
        return [Message(role="user", content=text.removesuffix("\n"))]
    try:
        value = json.loads(text)
    except ValueError as error:
        raise PromptError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise PromptError(f"{path} is nested too deeply for a list of messages") from None
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    try:
        messages = _MESSAGES.validate_python(value)
        "".join(message.content for message in messages).encode()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PromptError(f"{path} is not a list of messages: {where} {first['msg'].lower()}") from None
    except UnicodeEncodeError:
        raise PromptError(f"{path} holds half of a surrogate pair, which is no character") from None
    if not messages:
        raise PromptError(f"{path} holds no message")
    return messages


def did_you_mean(path: Path) -> str:
    """The end of a message about a missing file: the name beside it that resembles it."""
    try:
        found = nearest(path.name, sorted(entry.name for entry in path.parent.iterdir()), 0.7)
    except OSError:
        found = None
    return f'; did you mean "{found}"?' if found else ""


def prompt_messages(prompt: Prompt, folder: Path) -> list[Message]:
    """The messages of a prompt, inline or from its file. Raises PromptError."""
    if prompt.messages is not None:
        return prompt.messages
    if prompt.file is None:
        raise PromptError("the prompt has neither messages nor a file")
    return read_prompt_file(folder / prompt.file)
