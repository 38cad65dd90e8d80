"""Prompts of given lengths: those of a trace, or of a declared load.

Their words follow from a `salt`: another one gives other prompts, which no cache has seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from cli.bench.workload import Prompt, Workload
from cli.bench.written_prompts import read_lines
from cli.errors import WRONG_INPUT, CliError
from slipway.config.errors import Problem
from slipway.config.trace import SECONDS, Arrival, Broken, load_of, read_request

Traced = tuple[Arrival, Mapping[str, Any]]  # a request, and its whole line

BLOCK_TOKENS = 512  # of each of Mooncake's hash ids
# Words that the vocabularies of common models have as one token, as services/engine_sim has them.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group"
    " country problem hand part place case week company system program question work number night"
    " point home water room mother area money story fact month lot right study book eye job word"
    " business issue side kind head house service friend father power hour game line end member law"
    " car city name team minute idea body back parent face others level office door health person"
    " art war history party result change morning reason moment air teacher force order"
)
WORDS = tuple(_TEXT.split())


def traced_prompts(
    path: Path, *, unit: str, names: Sequence[str], max_model_len: int | None, salt: str
) -> Workload:
    """The requests of a trace (docs/replay.md) in the order of their arrival, for the model with
    these `names`. Raises CliError for a broken line, or for a trace of another model."""
    read = [
        (number, line, read_request(line, SECONDS[unit]))
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip()
    ]
    requests: list[Traced] = []
    for number, line, arrival in read:
        if isinstance(arrival, Broken):
            raise _broken(path, number, arrival)
        values = json.loads(line)
        _must_be_of(names, max_model_len, arrival, values, f"{path}:{number}")
        requests.append((arrival, values))
    if len(requests) < 2:
        raise CliError(
            f"{path} has fewer than two requests", fix="use a longer trace", exit_code=WRONG_INPUT
        )
    requests.sort(key=lambda request: request[0][0])
    prompts = _Traced(requests, salt)
    return Workload(
        prompts=prompts,
        renewed=prompts.renewed,
        source=f"{path.name}, the lengths of {len(requests)} requests",
        load=load_of([arrival for arrival, _ in requests], path.name),
    )


def declared_prompts(
    input_tokens: int, output_tokens: int, *, count: int, source: str, salt: str
) -> Workload:
    """`count` different prompts of one length."""
    requests: list[Traced] = [((0.0, input_tokens, output_tokens), {})] * count
    prompts = _Traced(requests, salt)
    return Workload(prompts=prompts, renewed=prompts.renewed, source=source)


class _Traced(Sequence[Prompt]):
    """The prompts of requests, each made when it is asked for: a trace may have millions of
    words."""

    def __init__(self, requests: Sequence[Traced], salt: str) -> None:
        self._requests, self._salt = requests, salt

    def __len__(self) -> int:
        return len(self._requests)

    def renewed(self, turn: int) -> _Traced:
        """Prompts of the same lengths for another round, which share nothing with those of others:
        a prefix cache would know them."""
        return _Traced(self._requests, f"{self._salt} round {turn}")

    @overload
    def __getitem__(self, place: int) -> Prompt: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Prompt]: ...
    def __getitem__(self, place: int | slice) -> Prompt | Sequence[Prompt]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        (_, input_tokens, output_tokens), values = self._requests[place]
        text = _words(self._salt, values, place)
        return Prompt(
            text=" ".join(next(text) for _ in range(input_tokens)),
            max_tokens=output_tokens,
            chat=False,
            whole_length=True,
        )


def words(seed: str) -> Iterator[str]:
    """The same endless words for the same seed."""
    chosen = random.Random(seed)  # noqa: S311  (no secret)
    while True:
        yield chosen.choice(WORDS)


def _words(salt: str, values: Mapping[str, Any], number: int) -> Iterator[str]:
    """Two requests of a trace share as much of their beginnings as the trace says."""
    if (session := values.get("session")) is not None:
        yield from words(f"{salt} session {session}")
    for each in values.get("hash_ids") or ():
        block = words(f"{salt} block {each}")
        yield from (next(block) for _ in range(BLOCK_TOKENS))
    yield from words(f"{salt} request {number}")


def _must_be_of(
    names: Sequence[str],
    max_model_len: int | None,
    arrival: Arrival,
    values: Mapping[str, Any],
    place: str,
) -> None:
    named = values.get("model")
    if isinstance(named, str) and named not in names:
        raise CliError(
            f'{place}: the request is of the model "{named}", not of {names[0]}',
            fix=f"use a trace of {names[0]}, or remove `model` from its lines",
            exit_code=WRONG_INPUT,
        )
    tokens = arrival[1] + arrival[2]
    if max_model_len is not None and tokens > max_model_len:
        raise CliError(
            f"{place}: {tokens:,} tokens ({arrival[1]:,} + {arrival[2]:,}) are more than the"
            f" {max_model_len:,} of {names[0]} (max_model_len): the trace is of another model",
            fix=f"use a trace of {names[0]}, or remove the lines with more tokens",
            exit_code=WRONG_INPUT,
        )


def _broken(path: Path, number: int, broken: Broken) -> CliError:
    problem = Problem(
        source=str(path), line=number, key="", message=broken.message, value=broken.value, fix=""
    )
    return CliError(
        problem.place_and_message,
        fix="repair the line: docs/replay.md has the format",
        exit_code=WRONG_INPUT,
    )
