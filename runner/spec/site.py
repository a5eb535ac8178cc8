"""What belongs to the place and not to the experiment: the site file."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from runner.spec.client import LoadSite
from runner.spec.invariants import Key, Name
from runner.spec.kubernetes import KubernetesSite
from runner.spec.problem import shown
from runner.spec.process import ProcessSettings
from runner.spec.strict import Strict


class EmbeddedSite(Strict):
    """The embedded engine's own settings."""

    time_scale: float = Field(default=0.15, gt=0, description="1 is the speed of the GPU that it imitates.")
    version: Literal["0.26.0", "0.32.0", "0.33.0"] = Field(default="0.26.0", description="Release of vLLM to be.")
    profile: Literal["article", "h200", "cpu"] = Field(
        default="article", description="Host, model and step times to imitate."
    )
    faults: list[dict[str, Any]] = Field(default_factory=list, description="Faults on demand, for tests.")


def _server(text: str) -> str:
    """The address of a server, without a slash at its end."""

    def problem(what: str) -> PydanticCustomError:
        return PydanticCustomError("server_url", "{text} {what}", {"text": shown(text), "what": what})

    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise problem(f"is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in text or not text.isprintable():
        raise problem("must be an address such as http://HOST:8000, with http or https")
    if parts.username is not None or parts.password is not None:
        raise problem("must not hold a user or a password: the address stands in every report")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise problem("must end with the path: no ? and no # after it")
    if port == 0:
        raise problem("names port 0, which nothing listens on")
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):
        raise problem("must not end with /v1: the paths below it are added")
    return f"{parts.scheme}://{parts.netloc}{path}"


ServerUrl = Annotated[str, AfterValidator(_server)]


class EndpointSite(Strict):
    """Servers that run already."""

    urls: dict[Key, ServerUrl] = Field(
        default_factory=dict,
        description="Where each condition is served, by its name in the spec; one that a matrix makes has a URL by "
        "its own id, such as on-spec-tokens-1.",
    )


class Site(Strict):
    """A site file: which target this place measures, and how it is reached."""

    target: Name | None = None
    runs: Name = Field(default="runs", description="Where run directories are written.")
    load: LoadSite = LoadSite()
    embedded: EmbeddedSite = EmbeddedSite()
    process: ProcessSettings = ProcessSettings()
    endpoint: EndpointSite = EndpointSite()
    kubernetes: KubernetesSite = KubernetesSite()
