"""The load that a model is planned for, and its goal: given as options, or asked for."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from rich.prompt import FloatPrompt, IntPrompt

from cli.console import notes, say
from cli.errors import WRONG_INPUT, CliError
from cli.scaffold.options import whole
from slipway.scaffold.request import Values

USUAL_LOAD = {"requests_per_s": 1.0, "input_tokens": 500, "output_tokens": 200}
USUAL_GOAL = {"ttft_p95_ms": 2000, "tpot_p95_ms": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The load of a model and its goal, as far as they were given."""

    requests_per_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ttft_p95_ms: int | None = None
    tpot_p95_ms: int | None = None

    def load(self, *, needed: bool) -> Values | None:
        """That of the model file: what was given, completed by questions if it is `needed` or given
        in part. CliError where nobody can answer."""
        given: dict[str, Any] = {key: getattr(self, key) for key in USUAL_LOAD}
        if not needed and not any(given.values()):
            return None
        return {key: whole(value or _answer(key)) for key, value in given.items()}

    def goal(self, *, needed: bool) -> Values | None:
        given = {key: getattr(self, key) for key in USUAL_GOAL}
        if not needed:
            return {key: value for key, value in given.items() if value} or None
        return {key: value or USUAL_GOAL[key] for key, value in given.items()}


_QUESTIONS = {
    "requests_per_s": "Requests per second to plan for",
    "input_tokens": "Tokens of a usual request",
    "output_tokens": "Tokens of a usual answer",
}


def _answer(key: str) -> float | int:
    if not sys.stdin.isatty():
        option = f"--{key.replace('_', '-')}"
        raise CliError(
            f"{option} is missing, and stdin is not a terminal that could be asked",
            fix=f"add e.g. {option} {USUAL_LOAD[key]:g}",
            exit_code=WRONG_INPUT,
        )
    prompt = FloatPrompt if key == "requests_per_s" else IntPrompt
    while True:
        value = prompt.ask(_QUESTIONS[key], default=USUAL_LOAD[key], console=notes)
        if value > 0 and math.isfinite(value):
            return value
        say("please enter a number above 0")
