"""From a document to a model, every error at its place."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runner.spec.document import Document
from runner.spec.nearest import hint
from runner.spec.problem import Path, Problem
from runner.spec.strict import Strict

Model = TypeVar("Model", bound=Strict)


def validate(document: Document, model: type[Model]) -> tuple[Model | None, list[Problem]]:
    """The model, or None and all problems. Problems found while reading the document are included."""
    problems = list(document.problems)
    if not isinstance(document.value, Mapping):
        what = (
            "the file is empty" if document.value is None else "the file must be a mapping of keys to values"
        )
        return None, [*problems, Problem((), document.position(()), what)]
    try:
        instance = model.model_validate(document.value)
    except ValidationError as error:
        problems += [_problem(details, document, model) for details in error.errors()]
        return None, problems
    return instance, problems


def _problem(details: ErrorDetails, document: Document, model: type[Strict]) -> Problem:
    path: Path = tuple(part for part in details["loc"] if part != "[key]")
    about_key = details["type"] == "extra_forbidden" or "[key]" in details["loc"]
    place = document.position(path, of_key=about_key or details["type"] == "missing")
    return Problem(path, place, _message(details, path, document, model))


def _message(details: ErrorDetails, path: Path, document: Document, model: type[Strict]) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return f'unknown key "{path[-1]}"; {hint(str(path[-1]), _keys_at(model, path[:-1]))}'
        case "missing":
            return f'the key "{path[-1]}" is required here'
        case "string_type" if isinstance(given, (bool, int, float)):
            written = document.texts.get(path, str(given))
            return f'must be text, and {written} unquoted is {_name(given)}; quote it: "{written}"'
        case "literal_error":
            valid = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
            return f"must be one of {', '.join(valid)}, not {given!r}; {hint(str(given), valid)}"
        case "string_pattern_mismatch":
            return f"{given!r} must consist of lower-case letters, digits, dots and dashes"
        case "int_type" | "int_from_float":
            return f"must be a whole number, not {_shown(given)}"
        case "float_type":
            return f"must be a number, not {_shown(given)}"
        case "bool_type":
            return f"must be true or false, not {_shown(given)}"
        case "string_type":
            return f"must be text, not {_shown(given)}"
        case "list_type":
            return f"must be a list, not {_shown(given)}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"must be a mapping of keys to values, not {_shown(given)}"
        case _:
            return details["msg"][:1].lower() + details["msg"][1:]


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
    return f"{_name(value)}: {value!r}" if isinstance(value, (str, int, float, bool)) else _name(value)


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
