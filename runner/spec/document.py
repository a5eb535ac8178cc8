"""A YAML 1.2 document as plain values, with the place of every key and value.

Built on ruamel.yaml's node tree: a node knows its line and column, a duplicate key is still there to be
reported, and a number still has the text that its author wrote.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from runner.engine.arguments import CommaSeparated, Repeated, WrittenFloat
from runner.spec.problem import Path, Position, Problem, SpecError

_TAG = "tag:yaml.org,2002:"
_LIST_TAGS = {"!repeat": Repeated, "!comma": CommaSeparated}
_MAX_VALUES = 100_000
"""More values than any experiment has: aliases of aliases can otherwise grow without bound."""


@dataclass
class Document:
    """Plain values, and per path the position of its key and of its value."""

    file: str
    value: Any = None
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def position(self, path: Path, *, of_key: bool = False) -> Position:
        """Where `path` stands, or its nearest ancestor that stands somewhere."""
        for end in range(len(path), -1, -1):
            part = path[:end]
            found = self.keys.get(part) if of_key and end == len(path) else None
            found = found or self.values.get(part)
            if found is not None:
                return found
        return Position(1, 1)


def read_document(text: str, file: str) -> Document:
    """Read one YAML document.

    Raises SpecError for text that is not YAML. Duplicate keys and unknown tags are not raised but kept in
    `problems`, so that they can be reported together with everything else that is wrong.
    """
    document = Document(file)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        raise SpecError(file, [_syntax_problem(error, text)]) from None
    except (YAMLError, ValueError) as error:
        raise SpecError(file, [Problem((), Position(1, 1), f"not readable as YAML: {error}")]) from None
    if node is not None:
        document.value = _Reader(document).read(node, (), ())
    return document


def _syntax_problem(error: MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    for number, content in enumerate(text.splitlines()[:line], start=1):
        indent = content[: len(content) - len(content.lstrip())]
        if "\t" in indent and (number == line or number == line - 1):
            return Problem(
                (),
                Position(number, indent.index("\t") + 1),
                "a tab in the indentation; YAML is indented by spaces",
            )
    words = ", ".join(str(part) for part in (error.problem, error.context) if part)
    return Problem((), Position(line, column), f"not valid YAML: {words}")


class _Reader:
    """Turns the node tree into values, keeping positions and collecting problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._count = 0

    def read(self, node: Node, path: Path, open_nodes: tuple[int, ...]) -> Any:
        self._document.values.setdefault(path, _position(node))
        self._count += 1
        if id(node) in open_nodes or self._count > _MAX_VALUES:
            raise SpecError(
                self._document.file,
                [Problem(path, _position(node), "an alias that contains itself, or aliases that never end")],
            )
        inside = (*open_nodes, id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path, inside)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path, inside)
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path, inside: tuple[int, ...]) -> dict[str, Any]:
        if not _tag(node).startswith(_TAG):
            self._unknown_tag(node, path)
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                for name, value in self._merged(value_node, path, inside):
                    merged.setdefault(name, value)
                continue
            key = self._key(key_node, path)
            child: Path = (*path, key)
            if key in result:
                first = self._document.keys[child]
                self._problem(child, key_node, f'the key "{key}" stands twice; first in line {first.line}')
                continue
            self._document.keys[child] = _position(key_node)
            result[key] = self.read(value_node, child, inside)
        return {**{name: value for name, value in merged.items() if name not in result}, **result}

    def _merged(self, node: Node, path: Path, inside: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, MappingNode):
                self._problem(path, source, '"<<" takes a mapping or a list of mappings')
                continue
            yield from self._mapping(source, path, inside).items()

    def _key(self, node: Node, path: Path) -> str:
        if isinstance(node, ScalarNode):
            if node.tag != f"{_TAG}str":
                self._problem(path, node, f'a key must be text: quote it: "{node.value}"')
            return str(node.value)
        self._problem(path, node, "a key must be plain text")
        return f"<line {_position(node).line}>"

    def _sequence(self, node: SequenceNode, path: Path, inside: tuple[int, ...]) -> list[Any]:
        values = [self.read(item, (*path, index), inside) for index, item in enumerate(node.value)]
        kind = _LIST_TAGS.get(_tag(node))
        if kind is not None:
            tagged: list[Any] = kind(values)
            return tagged
        if not _tag(node).startswith(_TAG):
            self._unknown_tag(node, path)
        return values

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        self._document.texts[path] = node.value
        kind = _tag(node).removeprefix(_TAG)
        if kind in ("null", "bool", "int", "float"):
            try:
                value = self._constructor.construct_object(node)
            except (ValueError, YAMLError):
                self._problem(path, node, f'"{node.value}" cannot be read as {kind}; quote it if it is text')
                return None
            return WrittenFloat(node.value) if kind == "float" and _spelled_plainly(node.value) else value
        if kind not in ("str", "timestamp"):
            self._unknown_tag(node, path)
        return str(node.value)

    def _unknown_tag(self, node: Node, path: Path) -> None:
        self._problem(path, node, f"unknown tag {_tag(node)}; a list may be tagged !repeat or !comma")

    def _problem(self, path: Path, node: Node, message: str) -> None:
        self._document.problems.append(Problem(path, _position(node), message))


def _spelled_plainly(text: str) -> bool:
    """Whether Python's float() reads this text: `.inf` and `1_0.5` are YAML's own spellings."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _tag(node: Node) -> str:
    return str(node.tag or "")


def _position(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
