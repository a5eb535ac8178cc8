"""How engines are started as processes of this machine: what a spec or a site file says of it."""

import os
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from runner.spec.invariants import Name
from runner.spec.strict import Strict


def _at_home(text: str) -> str:
    try:
        Path(text).expanduser()
    except RuntimeError:
        word = text.partition("/")[0]
        raise PydanticCustomError("home", "{word} is nobody's home directory here", {"word": word}) from None
    return text


Place = Annotated[Name, AfterValidator(_at_home)]
"""A program or a folder; `~` is the home directory."""


def _words(value: object) -> object:
    return [value] if isinstance(value, str) else value


Program = Annotated[
    list[Place],
    Field(min_length=1),
    BeforeValidator(_words),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ]
        }
    ),
]
"""A program's name, or a list of words that begins with one."""


class ProcessSettings(Strict):
    """The process target's own settings. What the site file says wins over what the spec says."""

    executable: Program | None = Field(
        default=None,
        description="The engine's program (default: vllm, looked up on PATH), or a list: [numactl, -N0, vllm]. A path "
        "with a / starts from this file's folder. It is called as PROGRAM serve MODEL ARGUMENTS --host H --port P.",
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables that every condition's engine gets on this machine."
    )
    working_directory: Place | None = Field(
        default=None,
        description="Where it is started, and relative paths such as the model's begin; from this file's "
        "folder. Default: where the runner is.",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="The port to serve on; default: a free one, another for each start."
    )

    def beside(self, folder: Path) -> Self:
        """The same with absolute paths; `folder` is that of the file in which they were written."""
        words = self.executable
        if words is not None:
            words = [_program(words[0], folder), *words[1:]]
        directory = self.working_directory
        if directory is not None:
            directory = os.path.normpath(folder.absolute() / Path(directory).expanduser())
        return self.model_copy(update={"executable": words, "working_directory": directory})


def _program(word: str, folder: Path) -> str:
    """A bare name stays one: it is looked up on PATH. Links are kept: a virtual environment's python is one."""
    if "/" not in word:
        return word
    return str(folder.absolute() / Path(word).expanduser())
