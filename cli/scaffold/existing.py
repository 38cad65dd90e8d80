"""A model file that is there is served as it is: options that say something else are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.errors import WRONG_INPUT, CliError
from cli.scaffold.expected import USUAL_GOAL, USUAL_LOAD, Expected
from cli.scaffold.weights import Asked
from slipway.config.load import DeclaredLoad, Lengths
from slipway.config.model import Model

_PLACES = ("s3", "hf", "path", "package")  # in the order of the kinds of sources


def must_say_the_same(
    file: Model, asked: Asked, max_model_len: int | None, expected: Expected
) -> None:
    """CliError if an option contradicts the file."""
    settings = file.settings
    written = {
        **{key: _number(getattr(settings.load, key, None)) for key in USUAL_LOAD},
        **{key: getattr(settings.slo, key) for key in USUAL_GOAL},
        **{key: getattr(settings.source, key, None) for key in ("revision", "s3", "credentials")},
        "license": settings.license,
        "max_len": settings.engine.max_model_len,
    }
    given: Mapping[str, Any] = {
        **{key: getattr(expected, key) for key in (*USUAL_LOAD, *USUAL_GOAL)},
        **{key: getattr(asked, key) for key in ("revision", "s3", "credentials", "license")},
        "max_len": max_model_len,
    }
    others = [key for key, value in given.items() if value not in (None, written[key])]
    if others:
        options = ", ".join(f"--{key.replace('_', '-')}" for key in others)
        name = settings.name
        raise CliError(
            f"{file.origin.source} is there and is served as it is, but says something else than"
            f" {options}",
            fix=f"leave that out, change the file, or give another name, such as {name}-2, for a"
            " file of its own",
            exit_code=WRONG_INPUT,
        )


def as_it_is(file: Model) -> str:
    """What the file says, in one sentence."""
    load, source = file.settings.load, file.settings.source
    if isinstance(load, DeclaredLoad):
        tokens = f"{load.input_tokens.mean:.0f} + {load.output_tokens.mean:.0f} tokens"
        says = f"load {load.requests_per_s:g} requests/s of {tokens}"
    else:
        says = "no load" if load is None else f"load of the trace {load.trace}"
    places = (getattr(source, key, None) for key in _PLACES)
    place = next((each for each in places if each), "none (simulated)")
    return f"{file.origin.source} is served as it is: {says}, source {place}"


def _number(written: Any) -> Any:
    """Lengths that are all the same are one number."""
    if isinstance(written, Lengths) and written.p50 == written.p95:
        return written.p50
    return written
