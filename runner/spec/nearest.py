"""The nearest valid word for a mistyped one."""

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str], likeness: float = 0.6) -> str | None:
    """The valid word closest to `word`, or None when nothing resembles it by `likeness` (1 is the same word)."""
    plain = {_plain(candidate): candidate for candidate in valid}
    found = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=likeness)
    return plain[found[0]] if found else None


def hint(word: str, valid: Iterable[str]) -> str:
    """The end of an error message: the nearest valid word, else all of them."""
    words = list(valid)
    found = nearest(word, words)
    if found is not None:
        return f'did you mean "{found}"?'
    return f"valid here: {', '.join(words)}" if words else "nothing is valid here"


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")
