"""A YAML 1.2 document as plain values, with the place of every key and value.

Built on ruamel.yaml's node tree: a node knows its line and column, a duplicate key is still there to be
reported, and a number still has the text that its author wrote.
"""

import re
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from runner.engine.arguments import CommaSeparated, Repeated, WrittenFloat
from runner.spec.problem import Path, Position, Problem, SpecError, short

_TAG = "tag:yaml.org,2002:"
_TEXT = ("str", "timestamp", "merge", "value")
"""What stays text: a date, and `<<` and `=` where they are values."""
_LIST_TAGS = {"!repeat": Repeated, "!comma": CommaSeparated}
_MAX_VALUES = 100_000
"""More values than any experiment has: aliases of aliases can otherwise grow without bound."""
_MAX_DEPTH = 50
"""Deeper than any experiment is, and less than Python's and pydantic's own limits."""
_MAX_INTEGER = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")


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
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False  # YAML allows it, and nobody reads a Python warning
        node = yaml.compose(text)
        if node is not None:
            document.value = _Reader(document).read(node, (), ())
    except MarkedYAMLError as error:
        raise SpecError(file, [_syntax_problem(error, text)]) from None
    except ReaderError as error:
        what = f"the character U+{error.character:04X} cannot stand in a YAML file; is this a text file?"
        raise SpecError(file, [Problem((), _position_of(text, error.position), what)]) from None
    except (YAMLError, ValueError) as error:
        raise SpecError(file, [Problem((), Position(1, 1), f"not readable as YAML: {error}")]) from None
    except RecursionError:
        raise SpecError(file, [Problem((), Position(1, 1), "nested too deeply for an experiment")]) from None
    return document


def _position_of(text: str, index: int) -> Position:
    before = text[:index]
    return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _syntax_problem(error: MarkedYAMLError, text: str) -> Problem:
    at, begin = _mark(error.problem_mark or error.context_mark), _mark(error.context_mark)
    lines = text.split("\n")
    for number in (at.line - 1, at.line):
        content = lines[number - 1] if 0 < number <= len(lines) else ""
        indent = content[: len(content) - len(content.lstrip())]
        if "\t" in indent:
            place = Position(number, indent.index("\t") + 1)
            return Problem((), place, "a tab in the indentation; YAML is indented by spaces")
    words, context = str(error.problem or ""), str(error.context or "")
    if "character '\\t'" in words:
        return Problem((), at, "a tab between the words; put a space in its place")
    if words.startswith("mapping values are not allowed"):
        return Problem((), at, 'a ":" where no key can stand; check the indentation, or quote text that holds ": "')
    if context == "while scanning a simple key":
        return Problem((), begin, 'a key needs ": " after it, a colon and a space')
    if context == "while scanning a quoted scalar" and "end of stream" in words:
        return Problem((), begin, "the quote that is opened here is never closed")
    if words.startswith("expected <block end>"):
        return Problem((), at, f"does not fit the block that begins in line {begin.line}; check the indentation")
    if context.startswith("while parsing a flow"):
        return Problem((), at, f"the bracket that is opened in line {begin.line} is not closed before this: {words}")
    if found := re.match(r"found character (.+) that cannot start any token", words):
        return Problem((), at, f"text that begins with {found[1]} must be quoted")
    if "found another document" in words:
        return Problem((), at, 'a second document begins here ("---"); a file holds one')
    return Problem((), at, "not valid YAML: " + ", ".join(part for part in (words, context) if part))


def _mark(mark: StreamMark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)


class _Reader:
    """Turns the node tree into values, keeping positions and collecting problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._count = 0

    def read(self, node: Node, path: Path, open_nodes: tuple[int, ...], key: Node | None = None) -> Any:
        empty = isinstance(node, ScalarNode) and not node.value and node.start_mark.index == node.end_mark.index
        # nothing stands nowhere: ruamel marks it at the next word, which may be lines away
        place = (_position(key) if key is not None else Position(1, 1)) if empty else _position(node)
        self._document.values[path] = place
        inside = self._enter(node, path, open_nodes)
        if isinstance(node, MappingNode):
            return self._mapping(node, path, inside)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path, inside)
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _enter(self, node: Node, path: Path, open_nodes: tuple[int, ...]) -> tuple[int, ...]:
        self._count += 1
        if id(node) in open_nodes:
            self._give_up(node, path, "an alias that contains itself")
        if self._count > _MAX_VALUES:
            self._give_up(node, path, f"more than {_MAX_VALUES} values; aliases of aliases multiply them")
        if len(open_nodes) > _MAX_DEPTH:
            self._give_up(node, (), f"nested more than {_MAX_DEPTH} levels deep")
        return (*open_nodes, id(node))

    def _give_up(self, node: Node, path: Path, message: str) -> NoReturn:
        raise SpecError(self._document.file, [Problem(path, _position(node), message)])

    def _mapping(
        self, node: MappingNode, path: Path, inside: tuple[int, ...], given: Set[str] = frozenset()
    ) -> dict[str, Any]:
        """The mapping without the keys in `given`, which another one overrides."""
        if _tag(node) != f"{_TAG}map":
            self._unknown_tag(node, path)
        result: dict[str, Any] = {}
        merges: list[Node] = []
        seen: dict[str, Node] = {}
        for key_node, value_node in node.value:
            merge = key_node.tag == f"{_TAG}merge"
            key = "<<" if merge else self._key(key_node, path, node)
            child: Path = (*path, key)
            if key in seen:
                first = _position(seen[key]).line
                self._problem(child, key_node, f'the key "{short(key)}" stands twice; first in line {first}')
                continue
            seen[key] = key_node
            if merge:
                merges.append(value_node)
            elif key not in given:
                self._document.keys[child] = _position(key_node)
                result[key] = self.read(value_node, child, inside, key_node)
        merged: dict[str, Any] = {}
        for value_node in merges:
            sources = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            for source in sources:
                if isinstance(source, MappingNode):
                    taken = {*given, *result, *merged}
                    merged |= self._mapping(source, path, self._enter(source, path, inside), taken)
                else:
                    self._problem(path, source, '"<<" takes a mapping or a list of mappings')
        return {**merged, **result}

    def _key(self, node: Node, path: Path, mapping: MappingNode) -> str:
        if isinstance(node, ScalarNode):
            if _tag(node) != f"{_TAG}str":
                self._problem(path, node, f'a key must be text; quote it: "{short(node.value)}"')
            elif _SURROGATE.search(node.value):
                self._problem(path, node, "half of a surrogate pair is no character")
            return str(node.value)
        if isinstance(node, MappingNode) and mapping.flow_style and node.flow_style:
            self._problem(
                path, mapping, "a mapping cannot be a key; {{ }} is not filled in here: quote it if it is text"
            )
        else:
            self._problem(path, node, "a key must be plain text")
        return f"<line {_position(node).line}>"

    def _sequence(self, node: SequenceNode, path: Path, inside: tuple[int, ...]) -> list[Any]:
        values = [self.read(item, (*path, index), inside, item) for index, item in enumerate(node.value)]
        kind = _LIST_TAGS.get(_tag(node))
        if kind is not None:
            tagged: list[Any] = kind(values)
            return tagged
        if _tag(node) != f"{_TAG}seq":
            self._unknown_tag(node, path)
        return values

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        self._document.texts[path] = node.value
        kind = _tag(node).removeprefix(_TAG)
        if kind in ("null", "bool", "int", "float"):
            try:
                value = self._constructor.construct_object(node)
            except (ValueError, LookupError, YAMLError):
                self._problem(path, node, f'"{short(node.value)}" cannot be read as {kind}; quote it if it is text')
                return None
            if kind == "int" and abs(value) >= _MAX_INTEGER:
                self._problem(path, node, f"{short(node.value)} is too large a number; quote it if it is text")
                return None
            return WrittenFloat(node.value) if kind == "float" and _spelled_plainly(node.value) else value
        if kind not in _TEXT:
            self._unknown_tag(node, path)
        elif _SURROGATE.search(node.value):
            self._problem(path, node, "half of a surrogate pair is no character")
        return str(node.value)

    def _unknown_tag(self, node: Node, path: Path) -> None:
        tag = _tag(node).replace(_TAG, "!!")
        what = "only a list may be tagged so" if tag in _LIST_TAGS else "a list may be tagged !repeat or !comma"
        self._problem(path, node, f"unknown tag {short(tag)} here; {what}")

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
    return _mark(node.start_mark)
