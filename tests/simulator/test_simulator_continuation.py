"""Tokenizer, chat template, and the rule that gives every prompt its words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngram_rule import brute_force
from simulator_process import REPEAT, SENTENCE

from runner.simulator import chat_template, tokenizer
from runner.simulator.continuation import END, Continuation, repetition_asked


@given(st.text(st.characters(codec="utf-8")))
@settings(max_examples=300, deadline=None)
def test_any_text_survives(text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(token > tokenizer.IM_END for token in ids)
    assert all(token < 2**53 for token in ids)  # exact in any JSON reader


@given(st.text(alphabet="aZ k가힣 \n.,0é!", max_size=60))
@settings(max_examples=300, deadline=None)
def test_piece_of_each_id_is_its_own(text: str) -> None:
    for token in tokenizer.encode(text):
        assert tokenizer.encode(tokenizer.piece_of(token)) == [token]


@pytest.mark.parametrize("token", [3, 15, 10**18])
def test_unknown_ids_are_refused(token: int) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        tokenizer.piece_of(token)


def test_sentence_is_word_sized() -> None:
    assert 15 <= len(tokenizer.encode(SENTENCE)) <= 20


def test_special_names_in_user_text_are_plain_text() -> None:
    ids = chat_template.render([("user", "<|im_end|>")])
    assert ids.count(tokenizer.IM_END) == 2  # default system message and the user's own


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        (REPEAT, (SENTENCE, 3)),
        ("3회 반복해줘：가나다", ("가나다", 3)),
        ("Repeat the following TWICE: a b c", ("a b c", 2)),
        ("Please repeat it 4 times: x: y", ("x: y", 4)),
        ("Repeat three times", None),
        (f"repeat {'9' * 5000} times: x", ("x", 1000)),
        ("How many times did the bell ring: tell me", None),
        ("세 번 생각해봐: 가나다", None),
        ("repeat 0 times: x", None),
    ],
)
def test_repetition_rule(message: str, asked: tuple[str, int] | None) -> None:
    assert repetition_asked(message) == asked


def words_of(message: str, limit: int = 600) -> tuple[list[int], list[int]]:
    prompt = chat_template.render([("user", message)])
    words = Continuation(prompt, message)
    output = []
    while len(output) < limit:
        output.append(words[len(output)])
        if output[-1] == END:
            break
    return prompt, output


def test_repeated_text_then_new_words_then_end() -> None:
    prompt, output = words_of(REPEAT)
    text = tokenizer.decode(output)
    assert text.startswith((SENTENCE + "\n") * 3)
    closing = text.removeprefix((SENTENCE + "\n") * 3)
    assert closing.endswith(".<|im_end|>")
    assert SENTENCE not in closing
    assert 60 <= len(output) <= 75
    assert output[-1] == END
    assert prompt[-3:] == chat_template.render([("user", "other")])[-3:]


@given(st.text(st.characters(codec="utf-8"), max_size=80))
@settings(max_examples=60, deadline=None)
def test_other_prompts_never_repeat_five_tokens(message: str) -> None:
    if repetition_asked(message):
        return
    prompt, output = words_of(message)
    assert output[-1] == END
    words = [token for token in output[:-1] if token not in tokenizer.encode(".")]
    assert len(set(words)) == len(words)
    assert not set(words) & set(prompt)
    for done in range(1, len(output)):
        assert brute_force(prompt + output[:done], 5, 5, 5, 10**6) == []


def test_same_prompt_same_words_other_prompt_other_words() -> None:
    assert words_of("Hello") == words_of("Hello")
    assert words_of("Hello")[1][:5] != words_of("Hello!")[1][:5]


def test_variant_differs_from_its_token_on() -> None:
    prompt = chat_template.render([("user", REPEAT)])
    plain = Continuation(prompt, REPEAT)
    other = Continuation(prompt, REPEAT, variant="x", variant_from=10)
    assert [plain[i] for i in range(10)] == [other[i] for i in range(10)]
    assert plain[10] != other[10]


def test_many_repeats_are_made_as_they_are_read() -> None:
    text = "a b. " * 1000 + "c"
    message = f"repeat 1000 times: {text}"
    words = Continuation([1, 2, 3], message)
    unit = tokenizer.encode(text + "\n")
    assert tokenizer.encode((text + "\n") * 2) == unit * 2
    assert [words[index] for index in range(2 * len(unit))] == unit * 2
    assert words[1000 * len(unit) - 1] == unit[-1]
    assert words[1000 * len(unit)] not in unit
