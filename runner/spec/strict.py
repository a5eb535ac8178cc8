"""The one strict base of everything an author writes.

Unknown keys are refused, because a typo that is ignored becomes a setting that was never in force; values
keep their YAML type, because `version: 0.30` silently read as text is the version "0.3".
"""

from pydantic import BaseModel, ConfigDict


def kebab(name: str) -> str:
    """The YAML spelling of a field: `warm_up` is written `warm-up`."""
    return name.replace("_", "-")


class Strict(BaseModel):
    """A mapping in a spec or site file."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        alias_generator=kebab,
        validate_by_name=False,
        validate_by_alias=True,
    )
