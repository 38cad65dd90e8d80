"""The model that a command asks, by the name that a user gives."""

from __future__ import annotations

import difflib

from cli.applied import Applied, AppliedModel
from cli.errors import WRONG_INPUT, CliError
from cli.protocols.probe import NAMES


def known_model(applied: Applied, name: str) -> AppliedModel:
    """A model by its name or an alias. Raises CliError."""
    model = applied.model(name)
    if model is not None:
        return model
    names = sorted(applied.names())
    near = difflib.get_close_matches(name, names, n=1)
    raise CliError(
        f'the environment "{applied.environment}" serves no model "{name}"',
        fix=f'did you mean "{near[0]}"?' if near else f"use one of: {', '.join(names) or 'none'}",
        exit_code=WRONG_INPUT,
    )


def must_speak(model: AppliedModel, protocol: str, *, fix: str) -> None:
    """CliError where the model's replicas do not speak the protocol."""
    if protocol not in model.protocols:
        raise CliError(
            f'the model "{model.name}" does not speak {NAMES[protocol]}\'s protocol',
            fix=fix,
            exit_code=WRONG_INPUT,
        )
