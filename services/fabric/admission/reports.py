"""Whether a host's report can be judged. A host with root could write anything there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from fabric.pool import Pool
from fabric.tools import OF_HOSTS, OF_PAIRS
from program.errors import InputError

from admission.verdicts import findings_of

_FIELDS = {
    "key": str,
    "interface": str,
    "address": str,
    "port": int,
    "request": str,
    "devices": list,
    "outputs": list,
    "pairs": list,
}
# What parsers of outputs raise on what they were not written for.
_UNEXPECTED = (
    ArithmeticError,
    AttributeError,
    InputError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def problem_of(pool: Pool, host: str, report: Mapping[str, Any]) -> str:
    """Why this report cannot be judged; empty if it can."""
    try:
        for problem in _problems(host, report):
            return problem
        peers = {
            pair["peer"]: {**report, "pairs": [], "key": pair["peer_key"]}
            for pair in report["pairs"]
        }
        findings_of(pool, {**peers, host: report})
    except _UNEXPECTED as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def _problems(host: str, report: Mapping[str, Any]) -> Iterator[str]:
    """As schemas/fabric-host.schema.json has it. The library for schemas is not on hosts."""
    for field, kind in _FIELDS.items():
        if not isinstance(report[field], kind):
            yield f"{field} is no {kind.__name__}"
    if not all(isinstance(each, str) for each in report["devices"]):
        yield "devices has something else than names"
    yield from _of_outputs(report["outputs"], OF_HOSTS)
    for pair in report["pairs"]:
        if not isinstance(pair["peer"], str) or pair["peer"] == host:
            yield f"pairs has no other host: {pair['peer']!r}"
        if not isinstance(pair["peer_key"], str):
            yield f"pairs has no key of {pair['peer']}"
        if datetime.fromisoformat(pair["at"]).tzinfo is None:
            yield f"pairs has a time without a zone: {pair['at']}"
        yield from _of_outputs(pair["outputs"], OF_PAIRS)


def _of_outputs(outputs: Any, tools: Mapping[str, Any]) -> Iterator[str]:
    for each in outputs:
        if each["tool"] not in tools:
            yield f"the tool {each['tool']!r} is unknown here"
        if not isinstance(each["text"], str) or not isinstance(each.get("exit_code", 0), int):
            yield f"the output of {each['tool']} is no text with an exit code"
        if not isinstance(each.get("device", ""), str):
            yield f"the output of {each['tool']} has a device without a name"
