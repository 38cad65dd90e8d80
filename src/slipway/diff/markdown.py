"""Escapes untrusted text for GitHub's and GitLab's markdown, so that nothing in it acts as
markup."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]"
)
_MARKUP = re.compile(r"([\\`*_\[\]|~])")
_REFERENCES = re.compile(r"([@#!]|:(?=//)|www\.(?=\w))")  # what GitHub and GitLab turn into links
_BACKTICKS = re.compile(r"`+")


# Longer texts are cut, so that none can fill a comment.
LONGEST_NAME = 200
LONGEST_LINE = 1000


def plain(text: str) -> str:
    """Removes terminal sequences, control characters and characters that change the writing
    direction."""
    if text.isprintable():  # true of nearly every text: no control character, no line break
        return text
    text = _ANSI.sub("", text)
    return "".join(
        letter
        for letter in text
        if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co")
    )


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def code(text: str) -> str:
    """A code span: no markup, mention or link inside. Safe in a table cell."""
    text = _cut(one_line(text), LONGEST_NAME).replace(
        "|", "¦"
    )  # a pipe ends the cell, even escaped
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    padding = " " if text[:1] == "`" or text[-1:] == "`" or not text else ""
    return f"{ticks}{padding}{text}{padding}{ticks}"


def prose(text: str) -> str:
    """Untrusted prose as plain text: no markup, mention or link."""
    text = html.escape(_cut(one_line(text), LONGEST_LINE), quote=False)
    text = _MARKUP.sub(r"\\\1", text)
    return _REFERENCES.sub("\\1\u2060", text)


def fence(lines: Iterable[str], language: str = "") -> str:
    """A fenced block whose fence is longer than any run of backticks in it."""
    body = "\n".join(_cut(plain(line).replace("\n", " "), LONGEST_LINE) for line in lines)
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def details(title: str, body: str) -> str:
    """A fold. `title` is HTML: pass untrusted text through `html_code`."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def html_code(text: str) -> str:
    return f"<code>{html.escape(_cut(one_line(text), LONGEST_NAME))}</code>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells must be escaped already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
