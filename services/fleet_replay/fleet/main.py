"""The program: reads a document, writes a result."""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.document import BadInputError, DocumentObject

from fleet.document import (
    TraceSource,
    parse_document,
    proposed_fleets,
    trace_source,
)
from fleet.fleet import simulate
from fleet.report import report
from fleet.trace import Request, Trace, read_trace

RESULT_VERSION = 1
_PROFILES = Path(__file__).parents[2] / "engine_sim" / "profiles.json"
_SHOWN_LINES = 10  # of the broken ones

# vLLM's block size. Prompts of thousands of tokens get blocks four times as large, which is twice
# as fast and wastes 24 more tokens per sequence on average (docs/replay.md has the difference).
_BLOCK_SIZE, _LONG_BLOCK_SIZE = 16, 64
_LONG_PROMPT_TOKENS = 2048


def main() -> int:
    """Exit codes: 0 done, 2 wrong input (the message is on standard error)."""
    parser = argparse.ArgumentParser(
        description="Replay a trace against simulated fleets: JSON on standard input and output."
    )
    parser.parse_args()
    # There are many objects, none of which is garbage before the end.
    gc.disable()
    try:
        result = replay(parse_document(sys.stdin.read()))
    except BadInputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    json.dump(result, sys.stdout)
    sys.stdout.write("\n")
    return 0


def replay(document: DocumentObject) -> Mapping[str, Any]:
    """schemas/replay_result.schema.json. Raises BadInputError when the input cannot be used."""
    source = trace_source(document)
    trace = load_trace(source)
    requests = at_speed(trace.requests, source.speed)
    fleets = proposed_fleets(document, _PROFILES, block_size_for(requests))
    return {
        "schema_version": RESULT_VERSION,
        "trace": {
            "path": str(source.path),
            "requests": len(requests),
            "skipped": [{"line": each.line, "reason": each.reason} for each in trace.broken],
            "duration_s": requests[-1].arrived_ms / 1000,
            "input_tokens": sum(each.input_tokens for each in requests),
            "output_tokens": sum(each.output_tokens for each in requests),
        },
        "fleets": [report(simulate(fleet, requests)) for fleet in fleets],
    }


def load_trace(source: TraceSource) -> Trace:
    """Raises BadInputError if it is missing or empty, or has broken lines that are not skipped."""
    try:
        with source.path.open(encoding="utf-8", errors="replace") as lines:
            trace = read_trace(lines, unit=source.unit)
    except OSError as error:
        raise BadInputError(f"{source.path}: {error.strerror}") from error
    if trace.broken and not source.skip_broken:
        total = len(trace.broken) + len(trace.requests)
        shown = [f"{source.path}:{each.line}: {each.reason}" for each in trace.broken]
        more = len(shown) - _SHOWN_LINES
        raise BadInputError(
            "\n".join(
                [
                    *shown[:_SHOWN_LINES],
                    *([f"and {more} more"] if more > 0 else []),
                    f"{len(trace.broken)} of {total} lines are broken",
                ]
            )
        )
    if not trace.requests:
        raise BadInputError(f"{source.path}: holds no request ({len(trace.broken)} broken lines)")
    return trace


def at_speed(requests: Sequence[Request], speed: float) -> Sequence[Request]:
    if speed == 1:
        return requests
    return [replace(each, arrived_ms=each.arrived_ms / speed) for each in requests]


def block_size_for(requests: Sequence[Request]) -> int:
    """Tokens in a simulated KV block, unless the document sets it."""
    mean_tokens = sum(each.input_tokens for each in requests) / len(requests)
    return _LONG_BLOCK_SIZE if mean_tokens > _LONG_PROMPT_TOKENS else _BLOCK_SIZE
