"""A trace file as a load: rates and lengths of the requests it holds.

One JSON object per line: `timestamp` (milliseconds or seconds), `input_length` and
`output_length` (tokens); other keys are for the replay.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from .errors import ConfigError, Problem
from .load import Lengths, Load, Ramp

SHOWN_PROBLEMS = 5
SECONDS = {"ms": 1e-3, "s": 1.0}

Arrival = tuple[float, int, int]  # seconds, input tokens, output tokens


def read_trace(path: Path, *, source: str, unit: Literal["ms", "s"] = "ms") -> Load:
    """The load of a trace. Raises ConfigError for a missing file and for broken lines."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _refused(source, f"cannot be read: {reason}", "check `load.trace`") from None
    requests: list[Arrival] = []
    broken: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        request = _request(line, SECONDS[unit])
        if isinstance(request, str):
            broken.append((number, request))
        else:
            requests.append(request)
    if broken:
        raise ConfigError(_problems(source, broken, len(lines)))
    if len(requests) < 2:
        raise _refused(source, "holds fewer than two requests", "use a longer trace")
    return _load(sorted(requests), source)


def _request(line: str, unit_s: float) -> Arrival | str:
    """A line's request, or what is wrong with it."""
    try:
        values: Any = json.loads(line)
    except ValueError:
        return "is not JSON"
    if not isinstance(values, dict):
        return "is not a JSON object"
    timestamp = values.get("timestamp")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return "`timestamp` must be a number"
    if not math.isfinite(timestamp):
        return "`timestamp` must be finite"
    for key in ("input_length", "output_length"):
        if type(values.get(key)) is not int or values[key] < 1:
            return f"`{key}` must be a whole number of at least 1"
    return timestamp * unit_s, values["input_length"], values["output_length"]


def _load(requests: Sequence[Arrival], source: str) -> Load:
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
    """The largest growth from one minute to the next; None when there is none."""
    counts = Counter(int(time // 60) for time in times_s)
    whole_minutes = int(times_s[-1] // 60)
    steps = [(counts[k + 1] - counts[k], counts[k + 1]) for k in range(whole_minutes - 1)]
    growth, reached = max(steps, default=(0, 0))
    return Ramp(to_requests_per_s=reached / 60, seconds=60.0) if growth > 0 else None


def _problems(source: str, broken: list[tuple[int, str]], lines: int) -> list[Problem]:
    said = f"{len(broken)} of {lines} lines are broken; nothing was read"
    return [
        Problem(
            source=source, line=number, key="", message=f"{what}; {said}", fix="repair the line"
        )
        for number, what in broken[:SHOWN_PROBLEMS]
    ]


def _refused(source: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(source=source, key="", message=message, fix=fix)])
