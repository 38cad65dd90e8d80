"""`slipway init`: a new environment in memory, with its models, judged before it is written."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cli.console import say
from cli.errors import WRONG_INPUT, CliError
from cli.machine.ports import is_free, listeners
from cli.proposals import propose, show
from cli.scaffold.adding import Limits, request_for
from cli.scaffold.existing import as_it_is
from cli.scaffold.expected import Expected
from cli.scaffold.joining import DoesNotFitError, Workspace, join
from cli.scaffold.judging import judge
from cli.scaffold.settling import settle, settle_for_scripts
from cli.scaffold.weights import Asked, Found, find_weights
from slipway.config.artifacts import read_artifacts
from slipway.config.catalog import load_catalog
from slipway.config.document import parse_document, read_document
from slipway.config.environment import NAMESPACE, parse_environment
from slipway.config.errors import ConfigError
from slipway.config.files import load_models, stack_file
from slipway.config.machine import read_machine
from slipway.config.ssh import read_host_keys
from slipway.inputs import PlanInputs
from slipway.planner.platform import draft_plan
from slipway.scaffold.comments import ABOVE
from slipway.scaffold.networks import is_network, must_be_apart
from slipway.scaffold.replacing import kept
from slipway.scaffold.request import RefusedError, Request
from slipway.scaffold.stacks import (
    KNOWN_HOSTS,
    Answers,
    DevAnswers,
    Host,
    MetalAnswers,
    stack_text,
)
from slipway.scaffold.text import one_line, with_entry

MODELS_DIR = "models"
BUDGET = "slipway:budget"
SMALLEST = (1, 1)  # replicas, where the usual numbers leave no room for all models


def start(
    answers: Answers,
    models: Sequence[Asked],
    expected: Expected,
    checkout: Path,
    *,
    replace_file: bool,
    yes: bool,
    json: bool,
) -> None:
    """CliError with the fix for every answer that does not work, and for a stack file that is there
    and differs, unless the user says to `replace_file`."""
    _check(answers, checkout)
    workspace = _with_models(_new(answers, checkout), models, expected)
    for each in workspace.inputs.models.values():
        if each.origin.source not in workspace.files:
            say(as_it_is(each))
    workspace = _with_budget(workspace)
    advice = judge(workspace.inputs)
    source = stack_file(answers.name)
    stack = propose(checkout, source, workspace.files[source])
    is_new = stack.before is None
    replaces = stack.changes and not is_new
    if replaces and not replace_file and (yes or json or not sys.stdin.isatty()):
        if not json:
            show([stack])
        raise CliError(
            f"{source} is there already, with other values",
            fix="choose another name, or add --replace: secrets and their keys are then kept",
            exit_code=WRONG_INPUT,
        )
    if isinstance(answers, DevAnswers) and is_new:  # an environment that is there may be running
        _must_be_free(answers, workspace.inputs)
    if json:
        about = {"environment": answers.name}
        settle_for_scripts(checkout, workspace.files, about, yes=yes)
        return
    name = answers.name
    again = f"slipway init -s {name} with the same options and"
    enter = not replaces
    if settle(checkout, workspace.files, advice, again=again, yes=yes, default=enter):
        say(f"slipway plan -s {name} shows what would run, slipway up -s {name} brings it up")


def other_networks(checkout: Path, name: str) -> Mapping[str, str]:
    """The networks of the other environments, as they are written."""
    found = {}
    for path in sorted(checkout.glob("Pulumi.*.yaml")):
        other = path.name.split(".", 1)[1].removesuffix(".yaml")
        config = read_document(path, source=path.name).values
        network = (config.get("config") or {}).get(f"{NAMESPACE}network") or {}
        cidr = str(network.get("cidr")) if isinstance(network, Mapping) else ""
        if other != name and is_network(cidr):
            found[other] = cidr
    return found


def _check(answers: Answers, checkout: Path) -> None:
    """What the stack file's own validation does not know."""
    if isinstance(answers, MetalAnswers):
        _listed_once((*answers.servers, *answers.hosts, *answers.gateways))
        return  # several environments may share one network of machines
    try:
        must_be_apart(answers.network, other_networks(checkout, answers.name))
    except RefusedError as error:
        raise CliError(
            f"--network: {error.message}", fix=error.fix, exit_code=WRONG_INPUT
        ) from None


def _listed_once(hosts: Sequence[Host]) -> None:
    for kind in ("name", "address"):
        seen: set[str] = set()
        for host in hosts:
            value = getattr(host, kind)
            if value in seen:
                raise CliError(
                    f"the {kind} {value} is given to two hosts",
                    fix="give every host a name and an address of its own",
                    exit_code=WRONG_INPUT,
                )
            seen.add(value)


def _new(answers: Answers, checkout: Path) -> Workspace:
    source = stack_file(answers.name)
    before = propose(checkout, source, "").before
    text = stack_text(answers)
    if before is not None:
        parse_document(before, source=source)  # or else ConfigError
        text = kept(text, before)
    document = parse_document(text, source=source)
    try:
        values = document.values["config"]
        inputs = PlanInputs(
            environment=parse_environment(values, name=answers.name, source=source),
            models={},
            catalog=load_catalog(checkout),
            artifacts=read_artifacts(checkout),
            machine=read_machine(),
            host_keys=read_host_keys(checkout / KNOWN_HOSTS),
        )
        draft_plan(inputs)  # what is wrong without any model
    except ConfigError as error:
        first = error.problems[0]
        raise CliError(first.place_and_message, fix=first.fix, exit_code=WRONG_INPUT) from None
    return Workspace(
        inputs=inputs,
        stack_text=text,
        library=load_models(checkout, MODELS_DIR),
        files={source: text},
    )


def _with_models(workspace: Workspace, models: Sequence[Asked], expected: Expected) -> Workspace:
    """All of them with the usual numbers of replicas, else with the smallest. Each is found, and
    its load asked for, once."""
    wanted: dict[Asked, tuple[Found, Request]] = {}
    try:
        return _joined(workspace, models, expected, wanted, replicas=None)
    except DoesNotFitError as first:
        if len(models) == 1:
            raise
        try:
            return _joined(workspace, models, expected, wanted, replicas=SMALLEST)
        except DoesNotFitError:
            raise first from None


def _joined(
    workspace: Workspace,
    models: Sequence[Asked],
    expected: Expected,
    wanted: dict[Asked, tuple[Found, Request]],
    *,
    replicas: tuple[int, int] | None,
) -> Workspace:
    """With all models; `wanted` are those that were found before, and is completed."""
    for asked in models:
        if asked not in wanted:
            wanted[asked] = _wanted(workspace, asked, expected)
        found, request = wanted[asked]
        workspace, _ = join(workspace, found, replace(request, replicas=replicas))
    return workspace


def _wanted(workspace: Workspace, asked: Asked, expected: Expected) -> tuple[Found, Request]:
    known = workspace.inputs.catalog.models
    found = find_weights(asked, {**workspace.library, **workspace.inputs.models}, known)
    return found, request_for(workspace, found, asked, Limits(), expected)


def _with_budget(workspace: Workspace) -> Workspace:
    """A fleet that costs something gets its cost as budget."""
    draft = draft_plan(workspace.inputs)
    least, most = draft.cost.usd_per_hour.value, draft.usd_per_hour_at_most
    if not least:
        return workspace
    values = {"usd_per_hour": math.ceil(least), "usd_per_hour_at_most": math.ceil(most)}
    text = with_entry(
        workspace.stack_text, ("config",), BUDGET, one_line(values), above=ABOVE[BUDGET]
    )
    source = stack_file(workspace.environment)
    environment = parse_environment(
        parse_document(text, source=source).values["config"],
        name=workspace.environment,
        source=source,
    )
    return replace(
        workspace,
        stack_text=text,
        files={**workspace.files, source: text},
        inputs=replace(workspace.inputs, environment=environment),
    )


def _must_be_free(answers: DevAnswers, inputs: PlanInputs) -> None:
    """CliError if another program listens in the network."""
    from stacks.planning import make_plan  # noqa: PLC0415 - rendering loads only here

    taken = [each for each in listeners(make_plan(inputs)) if not is_free(each)]
    if taken:
        raise CliError(
            f"--network: {taken[0]} is in use by another program, and {answers.network} would need"
            f" it ({taken[0].purpose})",
            fix="choose another network, or end that program",
            exit_code=WRONG_INPUT,
        )
