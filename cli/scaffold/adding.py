"""`slipway models add`: finds the weights, asks for the load, plans, judges, shows and writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.prompt import FloatPrompt, IntPrompt

from cli.console import notes, say
from cli.environment import Environment
from cli.errors import WRONG_INPUT, CliError
from cli.scaffold.joining import Workspace, join
from cli.scaffold.judging import judge
from cli.scaffold.options import whole
from cli.scaffold.settling import settle, settle_for_scripts
from cli.scaffold.weights import Asked, Found, find_weights
from slipway.config.document import read_text
from slipway.config.files import load_models, stack_file
from slipway.inputs import load_inputs_without_certificate
from slipway.scaffold.adding import Addition
from slipway.scaffold.request import Request, Values
from slipway.scaffold.surroundings import Surroundings

USUAL_LOAD = {"requests_per_s": 1.0, "input_tokens": 500, "output_tokens": 200}
USUAL_GOAL = {"ttft_p95_ms": 2000, "tpot_p95_ms": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None, or no pools, where what fits decides."""

    pools: tuple[str, ...] = ()
    max_model_len: int | None = None
    replicas: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The load of a model and its goal, as far as they were given."""

    requests_per_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ttft_p95_ms: int | None = None
    tpot_p95_ms: int | None = None

    def load(self, *, needed: bool) -> Values | None:
        """That of the model file: what was given, completed by questions if it is `needed` or given
        in part. CliError where nobody can answer."""
        given: dict[str, Any] = {key: getattr(self, key) for key in USUAL_LOAD}
        if not needed and not any(given.values()):
            return None
        return {key: whole(value or _answer(key)) for key, value in given.items()}

    def goal(self, *, needed: bool) -> Values | None:
        given = {key: getattr(self, key) for key in USUAL_GOAL}
        if not needed:
            return {key: value for key, value in given.items() if value} or None
        return {key: value or USUAL_GOAL[key] for key, value in given.items()}


_QUESTIONS = {
    "requests_per_s": "Requests per second to plan for",
    "input_tokens": "Tokens of a usual request",
    "output_tokens": "Tokens of a usual answer",
}


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
    """A fleet is planned for a load; one machine just runs, and a file that is there has one."""
    here = Surroundings(inputs=workspace.inputs).on_this_machine
    needed = not here and workspace.existing(found) is None
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


def _answer(key: str) -> float | int:
    if not sys.stdin.isatty():
        option = f"--{key.replace('_', '-')}"
        raise CliError(
            f"{option} is missing, and stdin is not a terminal that could be asked",
            fix=f"add e.g. {option} {USUAL_LOAD[key]:g}",
            exit_code=WRONG_INPUT,
        )
    prompt = FloatPrompt if key == "requests_per_s" else IntPrompt
    while True:
        value = prompt.ask(_QUESTIONS[key], default=USUAL_LOAD[key], console=notes)
        if value > 0:
            return value
        say("please enter a number above 0")


def _about(made: Addition) -> Mapping[str, Any]:
    planned = made.planned
    return {
        "name": made.name,
        "pool": planned.pool,
        "deployment": made.deployment,
        "model": made.model,
        "kv_tokens": planned.memory.kv_tokens,
    }
