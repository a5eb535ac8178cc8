"""A reversible tokenizer without a vocabulary file.

A token id is a number that spells its piece, so the mapping needs no table, is the same in every process
and covers any Unicode text: ``decode(encode(text)) == text``.

Pieces, tried in this order at each position:

==================  =====================================================================
class               piece
==================  =====================================================================
Latin word          optional space, then 1 to 8 ASCII letters; a capital starts a new piece
                    unless the run before it is all capitals (``RuntimeClass`` -> 2 pieces)
Hangul word         optional space, then 1 or 2 Hangul syllables
sentence end        one of ``. ! ? , : ;`` followed by a newline
single character    any other code point
==================  =====================================================================

Special tokens (:data:`END_OF_TEXT`, :data:`IM_START`, :data:`IM_END`) have ids below 16 and are never
produced from text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

END_OF_TEXT = 0
IM_START = 1
IM_END = 2
SPECIAL_TEXT = {END_OF_TEXT: "<|endoftext|>", IM_START: "<|im_start|>", IM_END: "<|im_end|>"}

LATIN_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LATIN_LENGTH = 8
SENTENCE_ENDS = ".!?,:;"
HANGUL_FIRST = 0xAC00
HANGUL_LAST = 0xD7A3
LONGEST_PIECE = LATIN_LENGTH + 1  # characters: the bound of "too long" without tokenising

_HANGUL_BASE = HANGUL_LAST - HANGUL_FIRST + 2
_LATIN_BASE = len(LATIN_LETTERS) + 1
_LATIN_DIGIT = {letter: index + 1 for index, letter in enumerate(LATIN_LETTERS)}

_CHARACTERS_AT = 16
_SENTENCE_ENDS_AT = _CHARACTERS_AT + 0x110000
_HANGUL_AT = _SENTENCE_ENDS_AT + len(SENTENCE_ENDS)
_LATIN_AT = _HANGUL_AT + 2 * _HANGUL_BASE**2

_PIECE = re.compile(
    r" ?(?:[A-Z]{2,8}(?![a-z])|[A-Za-z][a-z]{0,7})"
    r"| ?[가-힣]{1,2}"
    r"|[.!?,:;]\n"
    r"|(?s:.)"
)


def encode(text: str) -> list[int]:
    """Token ids of a text; the empty text has none."""
    return [_id_of(piece) for piece in _PIECE.findall(text)]


def decode(ids: Iterable[int]) -> str:
    """Text of token ids; special tokens come out as their names.

    Raises ValueError for an id that no piece has.
    """
    return "".join(piece_of(token) for token in ids)


@lru_cache(maxsize=65536)
def _id_of(piece: str) -> int:
    if len(piece) == 1 and not (piece in _LATIN_DIGIT or HANGUL_FIRST <= ord(piece) <= HANGUL_LAST):
        return _CHARACTERS_AT + ord(piece)
    if piece[-1] == "\n":
        return _SENTENCE_ENDS_AT + SENTENCE_ENDS.index(piece[0])
    spaced = piece[0] == " "
    word = piece[1:] if spaced else piece
    number = 0
    if word[0] in _LATIN_DIGIT:
        for letter in word:
            number = number * _LATIN_BASE + _LATIN_DIGIT[letter]
        return _LATIN_AT + 2 * number + spaced
    for syllable in word:
        number = number * _HANGUL_BASE + (ord(syllable) - HANGUL_FIRST + 1)
    return _HANGUL_AT + 2 * number + spaced


@lru_cache(maxsize=65536)
def piece_of(token: int) -> str:
    """Text of one token id. Raises ValueError for an id that no piece has."""
    if token in SPECIAL_TEXT:
        return SPECIAL_TEXT[token]
    if token < _CHARACTERS_AT:
        raise ValueError(f"token id {token} does not exist")
    if token < _SENTENCE_ENDS_AT:
        return chr(token - _CHARACTERS_AT)
    if token < _HANGUL_AT:
        return SENTENCE_ENDS[token - _SENTENCE_ENDS_AT] + "\n"
    if token < _LATIN_AT:
        number, spaced = divmod(token - _HANGUL_AT, 2)
        word = _spell(number, _HANGUL_BASE, lambda digit: chr(HANGUL_FIRST + digit - 1))
    else:
        number, spaced = divmod(token - _LATIN_AT, 2)
        word = _spell(number, _LATIN_BASE, lambda digit: LATIN_LETTERS[digit - 1])
    piece = (" " if spaced else "") + word
    if _id_of(piece) != token:
        raise ValueError(f"token id {token} does not exist")
    return piece


def _spell(number: int, base: int, letter: Callable[[int], str]) -> str:
    letters: list[str] = []
    while number:
        number, digit = divmod(number, base)
        if digit == 0:
            raise ValueError("token id does not exist")
        letters.append(letter(digit))
    if not letters or len(letters) > LATIN_LENGTH:
        raise ValueError("token id does not exist")
    return "".join(reversed(letters))
