"""The simulated model's text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from simulator.text import StopStrings, answer, tokenise


def test_an_answer_says_that_it_is_simulated_and_counts_its_words() -> None:
    assert answer("hello").text(0, 5) == "simulated: 2cf24dba w3 w4 "


def test_no_question_is_answered() -> None:
    text = answer("What is the capital of France?").text(0, 40)
    assert text.startswith("simulated: ")
    assert "Paris" not in text


@given(st.text(), st.text())
def test_texts_with_a_common_start_have_common_first_tokens(start: str, rest: str) -> None:
    all_but_last = tokenise(start)[:-1]
    assert tokenise(start + rest)[: len(all_but_last)] == all_but_last


def test_every_word_of_an_answer_is_one_token_when_it_comes_back() -> None:
    reply = answer("France")
    assert tokenise(reply.text(0, 200)) == tuple(map(reply.token, range(200)))


@given(st.lists(st.text("abc", max_size=4)), st.text("abc", min_size=1, max_size=3))
def test_a_stop_string_is_found_however_the_text_is_cut(pieces: list[str], stop: str) -> None:
    filter_ = StopStrings((stop,))
    sent = ""
    for piece in pieces:
        text, stopped = filter_.feed(piece)
        sent += text
        if stopped:
            break
    else:
        sent += filter_.rest()
    assert sent == "".join(pieces).split(stop)[0]
