"""Read a spec or a site file from disk."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from runner.spec.document import read_document
from runner.spec.meaning import check_meaning
from runner.spec.model import Experiment
from runner.spec.problem import Position, Problem, SpecError
from runner.spec.site import Site
from runner.spec.validation import validate


@dataclass(frozen=True, slots=True)
class Spec:
    """An experiment as read: the model, the text, and where relative files start."""

    experiment: Experiment
    text: str
    path: Path

    @property
    def folder(self) -> Path:
        """Where the files that the spec names are looked up."""
        return self.path.parent

    @property
    def sha256(self) -> str:
        """Digest of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_spec(path: Path) -> Spec:
    """The experiment in `path`. Raises SpecError with every problem at once."""
    text = _text(path)
    document = read_document(text, str(path))
    experiment, problems = validate(document, Experiment)
    problems += check_meaning(document, path.parent)
    if experiment is None or problems:
        raise SpecError(str(path), problems)
    return Spec(experiment, text, path)


def load_site(path: Path) -> Site:
    """The site file in `path`; an empty file says nothing. Raises SpecError."""
    document = read_document(_text(path), str(path))
    if document.value is None:
        return Site()
    site, problems = validate(document, Site)
    if site is None or problems:
        raise SpecError(str(path), problems)
    return site


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} at byte {error.start}"
    raise SpecError(str(path), [Problem((), Position(1, 1), f"cannot be read: {reason}")])
