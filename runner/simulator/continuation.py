"""The stated rule that gives every prompt its greedy continuation. No prompt is known by name.

1. If the last user message asks for a repetition (Korean ``세 번 반복``, ``3회 반복``; English
   ``repeat ... three times``, ``repeat ... twice``) and has a text after its first colon, that text is
   emitted as many times, each time followed by a newline, then one closing line of new words and the end
   token.
2. Otherwise: a sequence of new words, with a full stop now and then, then the end token.

"New words" are pronounceable letter groups drawn from a keyed hash of the prompt's token ids and a counter;
each is one token that occurs nowhere before in prompt or output. Hence no run of 5 tokens that contains one
can recur, and an N-gram drafter with its default window of 5 proposes nothing on such text. The number of
words is drawn from the same hash.

Past the end token (``ignore_eos``, ``min_tokens``, or a draft verified beyond it) the model goes on with
new words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from runner.simulator import tokenizer

END = tokenizer.IM_END  # the token that ends a turn in ChatML: generation stops at it

CLOSING_WORDS = (12, 14)  # words of the closing line, inclusive range
FREE_WORDS = (48, 207)  # words of a free text, inclusive range
SENTENCE_WORDS = 11  # a full stop after this many words
MOST_REPEATS = 1000

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"

_KOREAN_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("한 하나", "두 둘", "세 셋", "네 넷", "다섯", "여섯", "일곱", "여덟", "아홉", "열"), start=1
    )
    for word in words.split()
}
_ENGLISH_NUMBERS = {
    word: number
    for number, word in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
        start=1,
    )
}
_KOREAN_REPEAT = re.compile(
    rf"(\d+|{'|'.join(_KOREAN_NUMBERS)})\s*(?:번|회|차례)(?:\s*(?:씩|정도|을|를|더))?\s*(?:반복|되풀이)"
)
_ENGLISH_REPEAT = re.compile(
    rf"\brepeat\b[^:：]*?\b(?:(\d+|{'|'.join(_ENGLISH_NUMBERS)})\s+times|(once|twice|thrice))\b",
    re.IGNORECASE,
)
_ADVERBS = {"once": 1, "twice": 2, "thrice": 3}


def repetition_asked(message: str) -> tuple[str, int] | None:
    """(text, times) when the message asks for a text to be repeated, else None."""
    instruction, colon, text = _split_at_colon(message)
    text = text.strip()
    if not colon or not text:
        return None
    korean = _KOREAN_REPEAT.search(instruction)
    if korean:
        word = korean.group(1)
        times = _KOREAN_NUMBERS.get(word) or int(word[:6])
    else:
        english = _ENGLISH_REPEAT.search(instruction)
        if not english:
            return None
        counted, adverb = english.groups()
        word = (adverb or counted).lower()
        times = _ADVERBS.get(word) or _ENGLISH_NUMBERS.get(word) or int(word[:6])
    return (text, min(times, MOST_REPEATS)) if times > 0 else None


def _split_at_colon(message: str) -> tuple[str, str, str]:
    found = re.search("[:：]", message)
    if not found:
        return message, "", ""
    return message[: found.start()], found.group(), message[found.end() :]


class Continuation:
    """The tokens that the model emits after one prompt, made as far as they are asked for.

    Indexing from 0; any index is valid. ``variant`` other than "" gives another text for the same prompt
    (used by the fault that changes an engine's words); tokens before ``variant_from`` stay the same.
    """

    def __init__(
        self, prompt: Sequence[int], last_user_message: str, *, variant: str = "", variant_from: int = 0
    ) -> None:
        key = blake2b(repr(list(prompt)).encode(), digest_size=16)
        self._key = key.digest()
        self._seen = set(prompt)
        self._counter = 0
        self._words_since_stop = 0
        self._repeated: list[int] = []
        self._repeats_end = 0
        self._tokens: list[int] = []  # those after the repetitions
        self._ended = False
        asked = repetition_asked(last_user_message)
        if asked:
            text, times = asked
            # A piece never reaches past a newline, so the repeated text's tokens are the text's, repeated.
            self._repeated = tokenizer.encode(text + "\n")
            self._repeats_end = len(self._repeated) * times
            self._seen.update(self._repeated)
            low, high = CLOSING_WORDS
        else:
            low, high = FREE_WORDS
        self._words_left = low + self._draw() % (high - low + 1)
        if variant:
            self._take_another_way(variant, variant_from)

    def __getitem__(self, index: int) -> int:
        if index < self._repeats_end:
            return self._repeated[index % len(self._repeated)]
        tokens = self._tokens
        place = index - self._repeats_end
        while place >= len(tokens):
            self._extend()
        return tokens[place]

    def _take_another_way(self, variant: str, at: int) -> None:
        kept = [self[index] for index in range(at)]
        self._repeats_end = 0
        self._tokens = kept
        self._key = blake2b(self._key + variant.encode(), digest_size=16).digest()
        self._ended = END in kept
        self._words_left = max(1, self._words_left)

    def _extend(self) -> None:
        if self._words_left == 0 and not self._ended:
            self._ended = True
            self._tokens += [*tokenizer.encode("."), END]
            return
        if self._words_since_stop == SENTENCE_WORDS:
            self._words_since_stop = 0
            self._tokens += tokenizer.encode(".")
            return
        self._words_since_stop += 1
        self._words_left -= 0 if self._ended else 1
        self._tokens.append(self._new_word())

    def _new_word(self) -> int:
        # The repetitions end in a newline: what follows them starts a line, as the first word of a free text does.
        at_start = not self._tokens or tokenizer.piece_of(self._tokens[-1]).endswith("\n")
        while True:
            number = self._draw()
            word = ""
            for _ in range(2 + number % 2):
                number, consonant = divmod(number, len(_CONSONANTS))
                number, vowel = divmod(number, len(_VOWELS))
                word += _CONSONANTS[consonant] + _VOWELS[vowel]
            (token,) = tokenizer.encode(word.capitalize() if at_start else " " + word)
            if token not in self._seen:
                self._seen.add(token)
                return token

    def _draw(self) -> int:
        self._counter += 1
        drawn = blake2b(self._counter.to_bytes(8, "big"), key=self._key, digest_size=8)
        return int.from_bytes(drawn.digest(), "big")
