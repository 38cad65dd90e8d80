from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.errors import suggestion

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.3-70b", "phi-4", "qwen3-8b", "qwen3-32b", "t5")


@pytest.mark.parametrize(
    ("word", "known", "fix"),
    [
        ("cpu", (), "there is none to choose from yet"),
        ("phi4", MODELS, 'did you mean "phi-4"?'),
        ("PHI-4", MODELS, 'did you mean "phi-4"?'),
        (
            "llama-70b",
            MODELS,
            'did you mean "llama-3.3-70b", "llama-3.1-70b" or "llama-3.1-8b"?',
        ),
        ("l40", ("L4", "L40S", "H100-80"), 'did you mean "L40S" or "L4"?'),
        ("disk", ("cpu", "edge"), "use one of: cpu, edge"),
        ("bert", MODELS, "use one of 7, such as t5, qwen3-8b or qwen3-32b"),
    ],
)
def test_the_nearest_names_are_suggested(word: str, known: tuple[str, ...], fix: str) -> None:
    assert suggestion(word, known) == fix


@given(st.text(string.printable), st.sets(st.from_regex(r"[a-z]{8}[0-9]{4}", fullmatch=True)))
def test_at_most_three_of_many_names_are_suggested(word: str, known: set[str]) -> None:
    shown = [name for name in known if name in suggestion(word, known)]
    assert len(shown) <= 3 or len(known) <= 6
    assert shown or not known
