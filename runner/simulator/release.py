"""The releases of vLLM that the embedded engine can be: what differs between them lies here.

Sources: vllm-project/vllm 0.26.0, 0.32.0 (CPU build) and 0.33.0, ``config/`` and ``v1/``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """One release. `speculates_on_v2`: method ``ngram`` runs on Model Runner V2, where a kernel drafts, async
    scheduling stays on, every decode step carries K drafts and the latest occurrence wins.
    """

    version: str
    speculates_on_v2: bool


RELEASES = {
    release.version: release
    for release in (
        Release("0.26.0", speculates_on_v2=False),
        Release("0.32.0", speculates_on_v2=True),
        Release("0.33.0", speculates_on_v2=True),
    )
}
DEFAULT = "0.26.0"


def named(version: str) -> Release:
    """Release of a version. Raises ValueError that lists those that exist."""
    if version not in RELEASES:
        raise ValueError(f"no release {version!r}: the embedded engine knows {', '.join(RELEASES)}")
    return RELEASES[version]
