"""`slipway models add`: finds the weights, asks for the load, plans, judges, shows and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.console import say
from cli.environment import Environment
from cli.scaffold.existing import as_it_is, must_say_the_same
from cli.scaffold.expected import Expected
from cli.scaffold.joining import Workspace, join
from cli.scaffold.judging import judge
from cli.scaffold.settling import settle, settle_for_scripts
from cli.scaffold.weights import Asked, Found, find_weights
from slipway.config.document import read_text
from slipway.config.files import load_models, stack_file
from slipway.inputs import load_inputs_without_certificate
from slipway.scaffold.adding import Addition
from slipway.scaffold.request import Request
from slipway.scaffold.surroundings import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None, or no pools, where what fits decides."""

    pools: tuple[str, ...] = ()
    max_model_len: int | None = None
    replicas: tuple[int, int] | None = None


def add(
    environment: Environment,
    asked: Asked,
    limits: Limits,
    expected: Expected,
    *,
    yes: bool,
    json: bool,
) -> None:
    workspace = open_workspace(environment)
    before = workspace.inputs
    found = find_weights(asked, workspace.library, before.catalog.models)
    joined, made = join(workspace, found, request_for(workspace, found, asked, limits, expected))
    advice = judge(joined.inputs, before)
    if made.model is None:
        say(as_it_is(workspace.library[made.name]))
    if json:
        settle_for_scripts(environment.checkout, joined.files, _about(made), yes=yes)
        return
    name = environment.name
    again = f"slipway models add {asked.model} -s {name}"
    if settle(environment.checkout, joined.files, advice, again=again, yes=yes):
        say(f"slipway plan -s {name} shows it; slipway up -s {name} applies it")


def open_workspace(environment: Environment) -> Workspace:
    """The environment as its files are. Raises ConfigError."""
    inputs = load_inputs_without_certificate(environment.checkout, environment.name)
    source = stack_file(environment.name)
    return Workspace(
        inputs=inputs,
        stack_text=read_text(environment.checkout / source, source=source),
        library=load_models(environment.checkout, inputs.environment.settings.models_dir),
    )


def request_for(
    workspace: Workspace, found: Found, asked: Asked, limits: Limits, expected: Expected
) -> Request:
    """A fleet is planned for a load; one machine just runs, and a file that is there has one.
    CliError where the file contradicts what was asked for."""
    here = Surroundings(inputs=workspace.inputs).on_this_machine
    file = workspace.existing(found)
    if file is not None:
        must_say_the_same(file, asked, limits.max_model_len, expected)
        expected = Expected()
    needed = not here and file is None
    return Request(
        name=found.name,
        weights=found.weights,
        license=asked.license,
        load=expected.load(needed=needed),
        goal=expected.goal(needed=needed),
        pools=limits.pools,
        max_model_len=limits.max_model_len,
        replicas=limits.replicas,
    )


def _about(made: Addition) -> Mapping[str, Any]:
    planned = made.planned
    return {
        "name": made.name,
        "pool": planned.pool,
        "deployment": made.deployment,
        "model": made.model,
        "kv_tokens": planned.memory.kv_tokens,
    }
