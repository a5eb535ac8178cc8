"""The words that a report judges by, and what each of them says; one place, both languages."""

from runner.report.words import Words

TERMS = (
    "separated",
    "not-separated",
    "confounded",
    "contaminated",
    "inconclusive",
    "not-applicable",
    "too-few",
    "one-round",
)


def glossary(words: Words, text: str) -> list[tuple[str, str]]:
    """(term, meaning) of the terms that the report's text uses."""
    terms = [(words(f"term.{name}"), words(f"meaning.{name}")) for name in TERMS]
    return [(term, meaning) for term, meaning in terms if term.lower() in text.lower()]
