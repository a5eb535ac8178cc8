"""Files that ship beside the code: templates, schemas, example specs.

A checkout has them at its top level, where people read and review them; a wheel carries copies inside the
package. Nothing is ever read from the working directory.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(kind: str, name: str = "") -> Path:
    """Path of `templates/NAME`, `schemas/NAME` or `specs/NAME`, in a wheel as in a checkout.

    Raises FileNotFoundError when neither has it.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        path = root / kind / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{kind}/{name} is missing from this installation of the runner")
