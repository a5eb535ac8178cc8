"""How requests are sent, and by what they are let in: the block `load:` of a spec, and of a site file."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from runner.spec.problem import shown
from runner.spec.process import Place
from runner.spec.strict import Strict

Connection = Literal["keep-alive", "per-request"]
Processes = Annotated[int, Field(ge=1)]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, 5.6.2."""
_VISIBLE: Final = r"[\x21-\x7e\xa0-\xff]"
_VALUE: Final = re.compile(rf"(?:{_VISIBLE}(?:[\t\x20-\x7e\xa0-\xff]*{_VISIBLE})?)?")
"""RFC 9110, 5.5, in latin-1."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS: Final = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
_HOP: Final = ("expect", "keep-alive", "proxy-connection", "te", "trailer", "upgrade")
"""What would have the two ends of a connection use it otherwise than the runner does."""


def is_header_value(text: str) -> bool:
    """Whether HTTP can hold the text as a header's value: latin-1, without control characters, no space at its ends."""
    return _VALUE.fullmatch(text) is not None


def _name(text: str) -> str:
    name = text.lower()
    if not _TOKEN.fullmatch(text):
        raise _wrong("{name} cannot be a header's name: letters, digits and dashes, without spaces", name=shown(text))
    if name == "authorization":
        raise _wrong(
            'what lets the runner in is named, and does not stand here: bearer-token: {{env: NAME}}, or "file"'
        )
    if name in _OURS:
        raise _wrong("the runner sets {name} itself; leave it out", name=shown(text))
    if name in _HOP:
        raise _wrong("{name} says how a connection is used, and that is the runner's; leave it out", name=shown(text))
    return text


def _value(given: object) -> object:
    # a value may be a secret: no message repeats it
    if not isinstance(given, str):
        raise _wrong("must be text; quote it")
    if not is_header_value(given):
        raise _wrong(
            "a header cannot hold this value: one line of latin-1, without control characters and without space at "
            "its ends"
        )
    return given


def _variable(given: object) -> object:
    if not (isinstance(given, str) and _VARIABLE.fullmatch(given)):
        raise _wrong(
            "must be the name of an environment variable: letters, digits and _, no digit first; the token itself "
            "does not stand in a file"
        )
    return given


def _reference(given: object) -> object:
    if not isinstance(given, Mapping):
        raise _wrong("must say where the token is, and not be it: {{env: NAME}} or {{file: PATH}}")
    return given


def _wrong(words: str, **figures: str) -> PydanticCustomError:
    # pydantic leaves doubled braces alone
    return PydanticCustomError("client", "{words}", {"words": words.format(**figures)})


class LoadSettings(Strict):
    """How the load generator sends requests."""

    processes: Processes | None = Field(
        default=None,
        description="Processes of the load generator, never more than requests in flight. Default: one for each 256 of "
        "these, at most one less than this machine's processors, at least one.",
    )
    connection: Connection = Field(
        default="keep-alive",
        description="keep-alive: each slot keeps its connection; per-request: each request opens its own.",
    )


class BearerToken(Strict):
    """Where a token is: in an environment variable or in a file, never in the site file itself."""

    env: Annotated[str, BeforeValidator(_variable)] | None = Field(
        default=None, description="The variable that holds it."
    )
    file: Place | None = Field(default=None, description="The file that holds it; from this file's folder.")

    @property
    def where(self) -> str:
        """Where it is, in words that a report may print."""
        return f"file {self.file}" if self.env is None else f"environment variable {self.env}"


class LoadSite(Strict):
    """What belongs to the place: how much of this machine sends, and by what its engines let anybody in."""

    processes: Processes | None = Field(default=None, description="Wins over the spec's.")
    headers: dict[Annotated[str, AfterValidator(_name)], Annotated[str, BeforeValidator(_value)]] = Field(
        default_factory=dict, description="Sent with every request to an engine; reports show the names alone."
    )
    bearer_token: Annotated[BearerToken, BeforeValidator(_reference)] | None = Field(
        default=None, description="Sent as Authorization with every request to an engine; shown nowhere."
    )
    ca_file: Place | None = Field(
        default=None,
        description="A PEM file; its certificates are believed over https too, beside the shipped ones. From this "
        "file's folder.",
    )

    def beside(self, folder: Path) -> Self:
        """The same with absolute paths; `folder` is that of the file in which they were written."""

        def absolute(path: str | None) -> str | None:
            return None if path is None else os.path.normpath(folder.absolute() / Path(path).expanduser())

        token = self.bearer_token
        if token is not None:
            token = token.model_copy(update={"file": absolute(token.file)})
        return self.model_copy(update={"bearer_token": token, "ca_file": absolute(self.ca_file)})


def access_problems(root: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    """What the schema cannot say of a site file's block; what has the wrong shape is passed over."""
    block = root.get("load")
    if not isinstance(block, Mapping):
        return
    headers = block.get("headers")
    seen: dict[str, str] = {}
    for name in headers if isinstance(headers, Mapping) else ():
        first = seen.setdefault(name.lower(), name)
        if first != name:
            yield ("load", "headers", name), f"{shown(name)} and {shown(first)} are one header; give it once", True
    token = block.get("bearer-token")
    if isinstance(token, Mapping) and set(token) <= {"env", "file"}:
        given = [key for key in ("env", "file") if token.get(key) is not None]
        if len(given) != 1:
            both = ", not both" * bool(given)
            yield ("load", "bearer-token"), f'give "env" (a variable) or "file" (a path){both}', True
