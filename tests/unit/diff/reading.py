"""Reads a comment as a markdown renderer does, as far as folds and fences go."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^(`{3,})(\w*)$")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def outside_fences(text: str) -> list[str]:
    """The lines that are markdown. Fails when a fence is left open."""
    lines, fence = list[str](), ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            fence = "" if line == fence else fence
        elif found:
            fence = found.group(1)
        else:
            lines.append(line)
    assert not fence, "a fence is left open"
    return lines


def assert_balanced(text: str) -> None:
    depth = 0
    for line in outside_fences(text):
        markup = _SPAN.sub("", line)
        depth += markup.count("<details>") - markup.count("</details>")
        assert depth in (0, 1), line
    assert depth == 0, "a fold is left open"


def visible(text: str) -> str:
    """What is markup or prose: neither in a fence nor in a code span."""
    lines = (_SPAN.sub("", line) for line in outside_fences(text))
    return "\n".join(re.sub(r"<code>[^<]*</code>", "", line) for line in lines)
