"""What belongs to the place and not to the experiment: the site file."""

from typing import Any, Literal

from pydantic import Field

from runner.spec.invariants import Name
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


class Site(Strict):
    """A site file: which target this place measures, and how it is reached."""

    target: Name | None = None
    runs: Name = Field(default="runs", description="Where run directories are written.")
    embedded: EmbeddedSite = EmbeddedSite()
    process: ProcessSettings = ProcessSettings()
