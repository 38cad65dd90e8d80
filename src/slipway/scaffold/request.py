"""What a person wants to serve, as answered: nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.config.catalog import Architecture
from slipway.config.document import Origin
from slipway.config.errors import ConfigError
from slipway.config.model import parse_model

Values = Mapping[str, Any]


class RefusedError(Exception):
    """What was asked for cannot be written: why, and what could be."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """`source` is that of the model file, None where an engine without weights simulates the model.

    `stated` is the `architecture` that the file's engine needs, None where the source says it; a
    plan knows the `architecture` as `known_as`.
    """

    source: Values | None
    stated: str | None
    known_as: str
    architecture: Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`license`, `load` and `goal` are those of the model file; None where they are not declared.
    Without `pools` every pool is tried that could serve the model. `max_model_len` (tokens) and
    `replicas` (least, most) are decided where they are None.
    """

    name: str
    weights: Weights
    license: str | None = None
    load: Values | None = None
    goal: Values | None = None
    pools: tuple[str, ...] = ()
    max_model_len: int | None = None
    replicas: tuple[int, int] | None = None

    @property
    def simulated(self) -> bool:
        return self.weights.source is None

    @property
    def tokens_of_a_request(self) -> int:
        """Of the mean request, or of a short one where no load is declared."""
        load = self.load or {}
        return int(load.get("input_tokens", 500)) + int(load.get("output_tokens", 200))


def must_be_valid(request: Request) -> None:
    """Refuses answers that no model file may have, whatever the environment."""
    context = request.weights.architecture.context
    if request.max_model_len is not None and request.max_model_len > context:
        raise RefusedError(
            f"{request.max_model_len:,} tokens are more than the {context:,} that {request.name}"
            " was trained for",
            fix=f"use at most {context}",
        )
    sections = {
        "name": request.name,
        "source": request.weights.source,
        "license": request.license,
        "engine": {"kind": "vllm"},
        "slo": request.goal,
        "load": request.load,
    }
    values = {key: each for key, each in sections.items() if each is not None}
    try:
        parse_model(values, origin=Origin(source=request.name))
    except ConfigError as error:
        first = error.problems[0]
        raise RefusedError(first.place_and_message, fix=first.fix) from None
