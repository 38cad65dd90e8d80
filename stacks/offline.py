"""Runs the Pulumi program in its own process, on an engine that creates nothing.

`slipway preview --offline` starts it. It reads a request from standard input and writes the
resources to standard output, both as JSON; the program's own output goes to standard error.

Exit status: 0 done, 1 the program failed, 2 the user's input is invalid.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import pulumi

from slipway.plan.preview import SECRET, UNKNOWN, Resource
from stacks import recording
from stacks.recording import NeedsProviderError, Registration


def main() -> int:
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        resources = run(json.load(sys.stdin))
    except pulumi.RunError as problem:  # its message is meant for the user
        print(problem, file=sys.stderr)  # noqa: T201
        return 2
    except NeedsProviderError as problem:
        print(f"{problem}, and an offline preview has none", file=sys.stderr)  # noqa: T201
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    with results:
        json.dump(resources, results)
    return 0


def run(request: Mapping[str, Any]) -> list[Resource]:
    """Runs the request's `program` (a file) and returns its resources, each after its parent.

    Request: program, stack, configuration (key -> text, as Pulumi passes it to a program),
    secret_keys (which of them are secrets).
    """
    # A failed program leaves futures that are never awaited; asyncio would report each of them.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    os.environ["PULUMI_CONFIG"] = json.dumps(request["configuration"])
    pulumi.runtime.set_all_config(request["configuration"], request["secret_keys"])
    recorded = recording.record(
        lambda: runpy.run_path(request["program"], run_name="__main__"), stack=request["stack"]
    )
    return [as_resource(found) for found in recorded.depth_first()]


def as_resource(found: Registration) -> Resource:
    return {
        "type": found.type,
        "name": found.name,
        "parent": found.parent,
        "urn": found.urn,
        "protect": found.protect,
        "inputs": {key: shown(value) for key, value in sorted(found.inputs.items())},
    }


def shown(value: Any) -> Any:
    """A value from the wire with secrets masked and unknowns marked, for people and policies."""
    if value == recording.UNKNOWN:
        return {UNKNOWN: True}
    if isinstance(value, list):
        return [shown(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # all numbers on the wire are floats
    if not isinstance(value, dict):
        return value
    if value.get(recording.SIGNATURE) == recording.SECRET:
        return SECRET
    return {key: shown(part) for key, part in sorted(value.items())}


if __name__ == "__main__":
    sys.exit(main())
