"""`--what-if key=value`: the same files with some values replaced, to see the effect on the
plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from .dev import DeploymentSettings
from .document import Origin, read_value
from .environment import NAMESPACE
from .errors import ConfigError, Problem, suggestion
from .fleet import FleetDeploymentSettings
from .model import (
    GoalSettings,
    ModelSettings,
    ParallelSettings,
    SimEngine,
    TimeoutSettings,
    VllmEngine,
)

SOURCE = "--what-if"
_OF_DEPLOYMENTS = {*DeploymentSettings.model_fields, *FleetDeploymentSettings.model_fields}
_NAMED = {
    "models": "this environment does not deploy a model of this name",
    "pools": "this environment has no pool of this name",
}
# A deployment names either; a change of one replaces the other.
_ALTERNATIVES = {"pool": "pools", "pools": "pool"}
_OF_MODELS = {*_OF_DEPLOYMENTS, *ModelSettings.model_fields} - {"name"}
# Keys of sections that are often written without the section.
_SECTIONS = {
    **{key: "engine" for engine in (VllmEngine, SimEngine) for key in engine.model_fields},
    **dict.fromkeys(ParallelSettings.model_fields, "parallel"),
    **dict.fromkeys(GoalSettings.model_fields, "slo"),
    **dict.fromkeys(TimeoutSettings.model_fields, "timeouts"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A replaced value in the environment's configuration or in a model file. Without a value
    (None) the key is removed."""

    key: tuple[str, ...]  # ("pools", "h100", "nodes", "max")
    value: Any
    model: str | None = None  # the model whose file it is in; None for the environment


def parse_change(text: str) -> Change:
    """`pools.h100.nodes.max=4` or `models.chat.parallel.tensor=2`; the value is YAML, and nothing
    removes the key.

    Under `models.NAME`, the deployment's keys (pool, pools, replicas, surge) change the
    environment; all others change the model file. Raises ConfigError.
    """
    dotted, equals, value = text.partition("=")
    key = tuple(part.strip() for part in dotted.removeprefix(NAMESPACE).split("."))
    if not equals or not all(key):
        raise _refused(text, "must be key=value", "write e.g. models.NAME.replicas.max=4")
    try:
        parsed = read_value(value)
    except (yaml.YAMLError, RecursionError):
        raise _refused(
            text, "has a value that is not YAML", "write e.g. pools.NAME.nodes=4"
        ) from None
    if key[0] != "models" or len(key) < 3 or key[2] in _OF_DEPLOYMENTS:
        return Change(key=key, value=parsed)
    if key[2] not in _OF_MODELS:
        raise _refused(text, f"{'.'.join(key[:3])}: unknown key", _meant(key[2]))
    return Change(key=key[2:], value=parsed, model=key[1])


def _meant(key: str) -> str:
    """The key of a model that was probably meant, below its section if it has one."""
    if key in _SECTIONS:
        return f'did you mean "{_SECTIONS[key]}.{key}"?'
    return suggestion(key, _OF_MODELS)


def changed(values: Mapping[str, Any], changes: Sequence[Change]) -> Mapping[str, Any]:
    """`values` with every change applied; all other values stay, but for alternatives."""
    for change in changes:
        values = _replaced(values, change.key, change.value)
    return values


def of_environment(changes: Sequence[Change]) -> list[Change]:
    """The environment's changes, with the keys of a stack file ("slipway:pools")."""
    return [
        Change(key=(f"{NAMESPACE}{change.key[0]}", *change.key[1:]), value=change.value)
        for change in changes
        if change.model is None
    ]


def of_model(changes: Sequence[Change], name: str) -> list[Change]:
    return [change for change in changes if change.model == name]


def blamed(origin: Origin, changes: Sequence[Change]) -> Origin:
    """`origin`, with problems at a changed key attributed to the option."""
    return replace(
        origin,
        replaced={
            change.key: Origin(
                source=SOURCE,
                namespace=NAMESPACE if change.model is None else f"models.{change.model}.",
            )
            for change in changes
        },
    )


def unmatched(values: Mapping[str, Any], changes: Sequence[Change]) -> list[Problem]:
    """Changes inside pools and models that the stack file's `values` do not have.

    Setting a whole pool is allowed: `pools.NAME={...}` adds it.
    """
    whole = [change for change in of_environment(changes) if len(change.key) < 3]
    known = changed(values, whole)
    inside = {("models", change.model) for change in changes if change.model is not None}
    inside |= {
        (change.key[0], change.key[1])
        for change in changes
        if change.model is None and change.key[0] in _NAMED and len(change.key) > 2
    }
    values_of = {kind: known.get(f"{NAMESPACE}{kind}") for kind in _NAMED}
    names = {
        kind: [str(name) for name in value] if isinstance(value, Mapping) else []
        for kind, value in values_of.items()
    }
    return [
        Problem(
            source=SOURCE,
            key=f"{kind}.{name}",
            message=_NAMED[kind],
            fix=suggestion(name, names[kind]),
        )
        for kind, name in sorted(inside)
        if name not in names[kind]
    ]


def _replaced(values: Any, key: tuple[str, ...], value: Any) -> dict[str, Any]:
    old = dict(values) if isinstance(values, Mapping) else {}
    first, *below = key
    if below:
        return old | {first: _replaced(old.get(first), tuple(below), value)}
    gone = first if value is None else _ALTERNATIVES.get(first)
    kept = {name: each for name, each in old.items() if name != gone}
    return kept if value is None else kept | {first: value}


def _refused(text: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(source=SOURCE, key="", message=message, fix=fix, value=text)])
