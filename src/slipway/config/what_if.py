"""`--what-if key=value`: the same files with some values replaced, to see what would follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from .environment import NAMESPACE, DeploymentSettings, FleetDeploymentSettings
from .errors import ConfigError, Problem

SOURCE = "--what-if"
_OF_DEPLOYMENTS = {*DeploymentSettings.model_fields, *FleetDeploymentSettings.model_fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value: of the environment's configuration, or of a model's file."""

    key: tuple[str, ...]  # ("pools", "h100", "nodes", "max")
    value: Any
    model: str | None = None  # whose file it is; None for the environment


def parse_change(text: str) -> Change:
    """`pools.h100.nodes.max=4` or `models.chat.parallel.tensor=2`; the value is YAML.

    Of `models.NAME` the deployment's keys (pool, pools, replicas, surge) are the environment's,
    all others the model file's. Raises ConfigError.
    """
    dotted, equals, value = text.partition("=")
    key = tuple(part.strip() for part in dotted.removeprefix(NAMESPACE).split("."))
    if not equals or not all(key):
        raise _refused(text, "must be key=value", "write e.g. models.NAME.replicas.max=4")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise _refused(
            text, "has a value that is not YAML", "write e.g. pools.NAME.nodes=4"
        ) from None
    if key[0] == "models" and len(key) > 2 and key[2] not in _OF_DEPLOYMENTS:
        return Change(key=key[2:], value=parsed, model=key[1])
    return Change(key=key, value=parsed)


def changed(values: Mapping[str, Any], changes: Sequence[Change]) -> Mapping[str, Any]:
    """`values` with every change applied; what a change does not name stays as it is."""
    for change in changes:
        values = _replaced(values, change.key, change.value)
    return values


def of_environment(changes: Sequence[Change]) -> list[Change]:
    """The environment's changes, under the names of a stack file ("slipway:pools")."""
    return [
        Change(key=(f"{NAMESPACE}{change.key[0]}", *change.key[1:]), value=change.value)
        for change in changes
        if change.model is None
    ]


def of_model(changes: Sequence[Change], name: str) -> list[Change]:
    return [change for change in changes if change.model == name]


def _replaced(values: Any, key: tuple[str, ...], value: Any) -> dict[str, Any]:
    old = dict(values) if isinstance(values, Mapping) else {}
    below = _replaced(old.get(key[0]), key[1:], value) if len(key) > 1 else value
    return old | {key[0]: below}


def _refused(text: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(source=SOURCE, key="", message=message, fix=fix, value=text)])
