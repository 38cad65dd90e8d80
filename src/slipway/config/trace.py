"""A trace file as a load: the rates and lengths of its requests.

One JSON object per line (schemas/trace.schema.json): `timestamp` (milliseconds or
seconds), `input_length` and `output_length` (tokens); other keys are for the replay.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .base import MOST_TOKENS
from .document import Origin
from .errors import ConfigError, Problem
from .load import Lengths, Load, Ramp, TracedLoad

SHOWN_LINES = 5
SECONDS = {"ms": 1e-3, "s": 1.0}
MOST_TIME = 10**15  # in milliseconds, 30,000 years

Arrival = tuple[float, int, int]  # seconds, input tokens, output tokens


class Broken(NamedTuple):
    """A line that is not a request: what is wrong, and with which value."""

    message: str
    value: Any


def read_trace(path: Path, traced: TracedLoad, origin: Origin) -> Load:
    """The load of a trace. `origin` is that of the model file which names the trace.

    Raises ConfigError, located at the broken lines, or at `load.trace` for other problems.
    """

    def refused(message: str, fix: str) -> ConfigError:
        problem = origin.problem(("load", "trace"), message, value=traced.trace, fix=fix)
        return ConfigError([problem])

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        fix = "check the path, which is relative to the project"
        raise refused(f"cannot be read: {error.strerror}", fix) from None
    except UnicodeDecodeError:
        raise refused("cannot be read: it is not UTF-8 text", "save it as UTF-8") from None
    read = {
        number: read_request(line, SECONDS[traced.unit])
        for number, line in enumerate(lines, start=1)
        if line.strip()
    }
    broken = {number: each for number, each in read.items() if isinstance(each, Broken)}
    if broken:
        raise ConfigError([_broken_lines(traced.trace, broken, len(lines))])
    requests = [each for each in read.values() if not isinstance(each, Broken)]
    if len(requests) < 2:
        raise refused("holds fewer than two requests", "use a longer trace")
    return load_of(sorted(requests), traced.trace)


def read_request(line: str, unit_s: float) -> Arrival | Broken:
    """One line of a trace, whose timestamps are in units of `unit_s` seconds."""
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError):
        return Broken("is not JSON", line.strip())
    if not isinstance(values, dict):
        return Broken("is not a JSON object", values)
    timestamp = values.get("timestamp")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return Broken("`timestamp` must be a number", timestamp)
    if not -MOST_TIME <= timestamp <= MOST_TIME:
        return Broken(f"`timestamp` must be finite, and at most {MOST_TIME}", timestamp)
    for key in ("input_length", "output_length"):
        tokens = values.get(key)
        if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
            return Broken(f"`{key}` must be a whole number from 1 to {MOST_TOKENS}", tokens)
    return timestamp * unit_s, values["input_length"], values["output_length"]


def load_of(requests: Sequence[Arrival], source: str) -> Load:
    """The load of two requests or more, in the order of their arrival."""
    first, last = requests[0][0], requests[-1][0]
    return Load(
        requests_per_s=len(requests) / max(1e-3, last - first),
        input_tokens=_lengths([request[1] for request in requests]),
        output_tokens=_lengths([request[2] for request in requests]),
        ramp=_steepest([request[0] - first for request in requests]),
        source=f"{source}: {len(requests)} requests",
    )


def _lengths(tokens: list[int]) -> Lengths:
    ordered = sorted(tokens)
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95)]
    return Lengths(p50=at[0], p95=at[1])


def _steepest(times_s: list[float]) -> Ramp | None:
    """The largest growth from one whole minute to the next; None if there is none.

    Looks only at minutes with requests: one wrong clock may put years into a trace.
    """
    counts = Counter(int(time // 60) for time in times_s)
    whole_minutes = int(times_s[-1] // 60)
    steps = [
        (count - counts[minute - 1], count)
        for minute, count in list(counts.items())
        if 0 < minute < whole_minutes
    ]
    growth, reached = max(steps, default=(0, 0))
    return Ramp(to_requests_per_s=reached / 60, seconds=60.0) if growth > 0 else None


def _broken_lines(source: str, broken: dict[int, Broken], lines: int) -> Problem:
    """One problem that shows the first broken lines."""
    shown = [
        Problem(source=source, line=number, key="", message=what, value=value, fix="")
        for number, (what, value) in list(broken.items())[:SHOWN_LINES]
    ]
    more = len(broken) - len(shown)
    return Problem(
        source=source,
        key="",
        message="\n    ".join(
            [
                f"{len(broken)} of {lines} lines are broken; nothing was read",
                *(problem.place_and_message for problem in shown),
                *([f"and {more} more"] if more else []),
            ]
        ),
        fix="repair or remove these lines",
    )
