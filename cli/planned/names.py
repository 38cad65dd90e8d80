"""Names of models that a user gives."""

from __future__ import annotations

from collections.abc import Iterable

from cli.errors import WRONG_INPUT, CliError
from slipway.config.errors import suggestion
from slipway.inputs import PlanInputs


def no_such_model(name: str, known: Iterable[str], inputs: PlanInputs) -> CliError:
    return CliError(
        f'{inputs.environment.name} deploys no model "{name}"',
        fix=suggestion(name, known),
        exit_code=WRONG_INPUT,
    )
