"""Mistakes in the user's files: what is wrong, where, and how to fix it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

VALUE_WIDTH = 60  # characters of a value that a problem quotes at most
_NEAREST = 3  # names that a fix suggests at most
_FEW = 6  # names that a fix lists completely


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake.

    `key` is the dotted path a user would look for ("slipway:pools.cpu.nodes"), empty for the
    file as a whole. `line` counts from 1. `value` is what was found, None when nothing was.
    """

    source: str
    key: str
    message: str
    fix: str
    line: int | None = None
    value: Any = None

    @property
    def place_and_message(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        found = "" if self.value is None else f" (found {quoted(self.value)})"
        subject = f"{self.key}: " if self.key else ""
        return f"{place}: {subject}{self.message}{found}"

    def __str__(self) -> str:
        return f"{self.place_and_message}\n    fix: {self.fix}"


class ConfigError(Exception):
    """The configuration cannot be used. Carries every problem found, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            sorted(problems, key=lambda problem: (problem.source, problem.line or 0, problem.key))
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))


def raise_if_any(problems: Sequence[Problem]) -> None:
    if problems:
        raise ConfigError(problems)


def quoted(value: Any) -> str:
    """The value as JSON, shortened to VALUE_WIDTH characters."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):
        # a number of over 4300 digits, or a value that contains itself or is nested too deeply
        return "a value too long to show"
    return text if len(text) <= VALUE_WIDTH else f"{text[: VALUE_WIDTH - 1]}…"


def suggestion(word: str, known: Iterable[str]) -> str:
    """What was probably meant: the nearest of the `known` names, whatever their case. Where none is
    near, a few names are all shown, and of many the three nearest."""
    names = {name.lower(): name for name in sorted(known)}
    wanted = word.lower()
    if not names:
        return "there is none to choose from yet"
    close = difflib.get_close_matches(wanted, names, n=1 if wanted in names else _NEAREST)
    if close:
        meant = _either([f'"{names[each]}"' for each in close])
        return f"did you mean {meant}?"
    if len(names) <= _FEW:
        return f"use one of: {', '.join(names.values())}"
    nearest = difflib.get_close_matches(wanted, names, n=_NEAREST, cutoff=0.0)
    return f"use one of {len(names)}, such as {_either([names[each] for each in nearest])}"


def suggestion_or(word: str, known: Iterable[str], otherwise: str) -> str:
    """`suggestion`, and what to do where none of the `known` names is meant."""
    nearest = suggestion(word, known)
    ends = nearest.endswith("?")
    return f"{nearest} Otherwise, {otherwise}" if ends else f"{nearest}; or {otherwise}"


def _either(words: Sequence[str]) -> str:
    """ "a, b or c" """
    return " or ".join(each for each in (", ".join(words[:-1]), words[-1]) if each)
