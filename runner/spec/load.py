"""Read a spec or a site file from disk."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from runner.spec.document import Document, read_document
from runner.spec.meaning import check_meaning, check_site_meaning
from runner.spec.model import Experiment
from runner.spec.problem import Position, Problem, SpecError
from runner.spec.prompts import did_you_mean
from runner.spec.site import Site
from runner.spec.validation import Model, validate

_MAX_BYTES = 1_000_000


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
    validated = validate(document, Experiment)
    problems = validated.problems + check_meaning(document, path.parent, validated.doubtful)
    return Spec(_usable(document, validated.value, problems), text, path)


def load_site(path: Path) -> Site:
    """The site file in `path`, its paths absolute; an empty file says nothing. Raises SpecError."""
    document = read_document(_text(path), str(path))
    if document.value is None:
        return Site()
    validated = validate(document, Site)
    problems = validated.problems + check_site_meaning(document, path.parent, validated.doubtful)
    site = _usable(document, validated.value, problems)
    beside = {
        "load": site.load.beside(path.parent),
        "process": site.process.beside(path.parent),
        "kubernetes": site.kubernetes.beside(path.parent),
    }
    return site.model_copy(update=beside)


def _usable(document: Document, model: Model | None, problems: list[Problem]) -> Model:
    """The model, if there is no problem. A value that could not even be read is not judged a second time."""
    unread = {problem.position for problem in document.problems}
    told = document.problems + [problem for problem in problems if problem.position not in unread]
    if model is None or told:
        raise SpecError(document.file, told)
    return model


def _text(path: Path) -> str:
    place = Position(1, 1)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) <= _MAX_BYTES:
            return data.decode("utf-8-sig")
        reason = f"it is larger than {_MAX_BYTES} bytes"
    except FileNotFoundError:
        reason = f"No such file or directory{did_you_mean(path)}"
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        place = Position(before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)
        reason = f"byte {error.object[error.start]:#04x} is not UTF-8; save the file as UTF-8 text"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    raise SpecError(str(path), [Problem((), place, f"cannot be read: {reason}")])
