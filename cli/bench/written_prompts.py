"""A file of the user's prompts: one on each line, as text or (.jsonl) as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.bench.workload import Prompt, Workload
from cli.errors import WRONG_INPUT, CliError
from slipway.config.errors import quoted

KEYS = ("prompt", "system", "max_tokens")
EXAMPLE = '{"prompt": "…", "max_tokens": 200}'


def read_prompts(path: Path, *, max_tokens: int) -> Workload:
    """Answers have at most `max_tokens`, unless a line has its own. Empty lines are ignored. Raises
    CliError."""
    lines = list(enumerate(read_lines(path), start=1))
    prompts = [
        _parsed(f"{path}:{number}", line, max_tokens)
        if path.suffix == ".jsonl"
        else Prompt(text=line, max_tokens=max_tokens)
        for number, line in lines
        if line.strip()
    ]
    if not prompts:
        raise CliError(
            f"{path} has no prompts", fix="write one prompt on each line", exit_code=WRONG_INPUT
        )
    return Workload(prompts=prompts, source=f"{path.name}, {len(prompts)} prompts")


def read_lines(path: Path) -> list[str]:
    """CliError if the file does not exist, or is not UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        fix = "convert it, for example with iconv -f latin1 -t utf-8"
        raise CliError(f"{path} is not UTF-8 text", fix=fix, exit_code=WRONG_INPUT) from None
    except (FileNotFoundError, IsADirectoryError):
        fix = "pass a file of prompts or of a trace: docs/bench.md has their formats"
        raise CliError(f"{path} is no file", fix=fix, exit_code=WRONG_INPUT) from None


def _parsed(place: str, line: str, max_tokens: int) -> Prompt:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise _refused(place, "is not JSON", line) from None
    values = {"prompt": value} if isinstance(value, str) else value
    if not isinstance(values, Mapping) or not isinstance(values.get("prompt"), str):
        raise _refused(place, "has no text as its `prompt`", value)
    if unknown := sorted(values.keys() - set(KEYS)):
        raise _refused(place, f"`{unknown[0]}` is not one of {', '.join(KEYS)}", value)
    system, most = values.get("system"), values.get("max_tokens", max_tokens)
    if not isinstance(system, str | None):
        raise _refused(place, "`system` must be text", system)
    if type(most) is not int or most < 1:
        raise _refused(place, "`max_tokens` must be a whole number from 1", most)
    return Prompt(text=values["prompt"], system=system, max_tokens=most)


def _refused(place: str, message: str, found: Any) -> CliError:
    return CliError(
        f"{place}: {message} (found {quoted(found)})",
        fix=f"write a text in quotes, or {EXAMPLE}",
        exit_code=WRONG_INPUT,
    )
