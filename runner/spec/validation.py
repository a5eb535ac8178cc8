"""From a document to a model, every error at its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runner.spec.document import Document
from runner.spec.nearest import hint, nearest
from runner.spec.problem import Path, Problem, short, shown
from runner.spec.strict import Strict

Model = TypeVar("Model", bound=Strict)

_EVERYTHING: frozenset[Path] = frozenset({()})
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}, not {given}",
    "greater_than": "must be more than {gt}, not {given}",
    "less_than_equal": "must be at most {le}, not {given}",
    "finite_number": "must be a finite number, not {given}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}


@dataclass(frozen=True, slots=True)
class Validated(Generic[Model]):
    """The model, or None and all problems, those found while reading the document included.

    `doubtful` are the paths that are misspelt or have the wrong shape: what refers to them cannot be judged yet.
    """

    value: Model | None
    problems: list[Problem]
    doubtful: frozenset[Path] = frozenset()


def validate(document: Document, model: type[Model]) -> Validated[Model]:
    """The document as the model."""
    problems = list(document.problems)
    if not isinstance(document.value, Mapping):
        what = "the file is empty" if document.value is None else "the file must be a mapping of keys to values"
        return Validated(None, [*problems, Problem((), document.position(()), what)], _EVERYTHING)
    if _something_else(document.value, model):
        found, known = (", ".join(short(key) for key in keys) for keys in (document.value, _keys_at(model, ())))
        what = f"none of its keys ({found}) belongs here: is this another kind of file? Known keys: {known}"
        return Validated(None, [*problems, Problem((), document.position(()), what)], _EVERYTHING)
    try:
        return Validated(model.model_validate(document.value), problems)
    except ValidationError as error:
        errors = error.errors()
    misspelt = {(*_path(one)[:-1], _nearest_key(one, model) or "") for one in errors if _is_unknown(one)}
    # a required key that is misspelt is one problem, not two
    told = [one for one in errors if one["type"] != "missing" or _path(one) not in misspelt]
    problems += [_problem(one, document, model) for one in told]
    return Validated(None, problems, frozenset(misspelt | {_path(one) for one in errors}))


def _something_else(value: Mapping[str, Any], model: type[Strict]) -> bool:
    known = _keys_at(model, ())
    return len(value) > 1 and not any(key in known or nearest(key, known, 0.7) for key in value)


def _is_unknown(details: ErrorDetails) -> bool:
    return details["type"] == "extra_forbidden"


def _nearest_key(details: ErrorDetails, model: type[Strict]) -> str | None:
    *parent, key = _path(details)
    return nearest(str(key), _keys_at(model, tuple(parent)))


def _path(details: ErrorDetails) -> Path:
    return tuple(part for part in details["loc"] if part != "[key]")


def _problem(details: ErrorDetails, document: Document, model: type[Strict]) -> Problem:
    path = _path(details)
    about_key = _is_unknown(details) or "[key]" in details["loc"]
    place = document.position(path, of_key=about_key)
    return Problem(path, place, _message(details, path, document, model))


def _message(details: ErrorDetails, path: Path, document: Document, model: type[Strict]) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    written = document.texts.get(path, "")
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context, given=short(written))
    match kind:
        case "extra_forbidden":
            return f'unknown key "{short(str(path[-1]))}"; {hint(str(path[-1]), _keys_at(model, path[:-1]))}'
        case "missing":
            return f'the key "{path[-1]}" is required here'
        case "string_type" if isinstance(given, (bool, int, float)):
            return f'must be text, and {short(written)} unquoted is {_name(given)}; quote it: "{short(written)}"'
        case "literal_error":
            valid = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
            return one_of(valid, given)
        case "string_pattern_mismatch":
            slug = "consist of lower-case letters, digits, dots and dashes: it names directories"
            line = "be one line of text, without space at its ends"
            return f"{shown(given)} must {slug if path == ('name',) else line}"
        case "int_type" | "int_from_float" | "float_type":
            what = "a number" if kind == "float_type" else "a whole number"
            quoted = isinstance(given, str) and _is_number(given)
            return f"must be {what}, not {_shown(given)}" + "; write it without quotes" * quoted
        case "bool_type":
            return f"must be true or false, not {_shown(given)}" + _true_or_false(given)
        case "string_type":
            return f"must be text, not {_shown(given)}"
        case "list_type":
            scalar = isinstance(given, (str, int, float))
            return f"must be a list, not {_shown(given)}" + f"; write [{short(written)}]" * scalar
        case "dict_type" | "model_type":
            advice = {list: '; leave out the "-" before its keys', type(None): "; leave the key out, or write {}"}
            return f"must be a mapping of keys to values, not {_shown(given)}" + advice.get(type(given), "")
        case _:
            return details["msg"][:1].lower() + details["msg"][1:]


def one_of(valid: Sequence[str], given: object) -> str:
    """The message for a word that is not of a vocabulary."""
    meant = nearest(given, valid) if isinstance(given, str) else None
    return f"must be one of {', '.join(valid)}, not {shown(given)}" + (f'; did you mean "{meant}"?' if meant else "")


def _true_or_false(given: object) -> str:
    words = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
    meant = words.get(given.lower()) if isinstance(given, str) else None
    return f"; write {meant}" if meant else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the model knows at `path`, walking through maps, lists and optional values."""
    annotation: Any = model
    for part in path:
        found = _model_in(annotation)
        if found is not None:
            fields = {field.alias or name: field for name, field in found.model_fields.items()}
            if part not in fields:
                return []
            annotation = fields[str(part)].annotation
        else:
            inner = [arg for arg in get_args(_without_none(annotation)) if arg is not str]
            annotation = inner[-1] if inner else Any
    found = _model_in(annotation)
    return [field.alias or name for name, field in found.model_fields.items()] if found else []


def _without_none(annotation: Any) -> Any:
    options = [option for option in get_args(annotation) if option is not type(None)]
    return options[0] if len(options) == 1 and type(None) in get_args(annotation) else annotation


def _model_in(annotation: Any) -> type[BaseModel] | None:
    plain = _without_none(annotation)
    return plain if isinstance(plain, type) and issubclass(plain, BaseModel) else None


def _shown(value: Any) -> str:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return f"{_name(value)} ({shown(value)})"
    return shown(value) if isinstance(value, bool) else _name(value)


def _name(value: Any) -> str:
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true/false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return type(value).__name__
