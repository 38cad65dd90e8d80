"""Which environments can be brought up: those whose target has components (stacks/targets/)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.cli.environment import Environment
from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.config.document import read_document
from slipway.config.environment import FLEETS, NAMESPACE
from slipway.config.errors import ConfigError
from slipway.config.inputs import stack_file


def must_have_components(environment: Environment) -> None:
    """CliError (wrong input) for a target that can be planned and is not built yet."""
    target = _target(environment)
    if target not in FLEETS:  # dev is built, and a name that is none is for the configuration
        return
    if (environment.checkout / "stacks" / "targets" / f"{target}.py").is_file():
        return
    raise CliError(
        f'{stack_file(environment.name)}: slipway:target: "{target}" has no components yet, so'
        " there is nothing to preview or to bring up",
        fix=f"slipway plan -s {environment.name} shows what it needs and costs",
        exit_code=WRONG_INPUT,
    )


def _target(environment: Environment) -> Any:
    """What the stack file says; None where it cannot be read. Its mistakes are told by those who
    read the rest of it, too."""
    source = stack_file(environment.name)
    try:
        values = read_document(environment.checkout / source, source=source).values.get("config")
    except ConfigError:
        return None
    return values.get(f"{NAMESPACE}target") if isinstance(values, Mapping) else None
