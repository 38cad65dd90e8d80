"""One environment: the `config:` section of Pulumi.<name>.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from .aws import AwsSettings
from .dev import DevSettings
from .document import Origin
from .errors import Problem, raise_if_any, suggestion
from .hosts import ListedHost
from .metal import MetalSettings
from .settings import EnvironmentSettings
from .validation import validated

NAMESPACE = "slipway:"
SETTINGS: Mapping[str, type[EnvironmentSettings]] = MappingProxyType(
    {"dev": DevSettings, "aws": AwsSettings, "metal": MetalSettings}
)
TARGETS = tuple(SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    settings: EnvironmentSettings
    origin: Origin


def parse_environment(
    values: Mapping[str, Any],
    *,
    name: str,
    source: str,
    origin: Origin | None = None,
    inventory: Iterable[ListedHost] = (),
) -> Environment:
    """Validate the configuration of one environment.

    `values` maps "slipway:<key>" to a value, or to its JSON text as Pulumi hands objects to a
    program; keys of other namespaces ("pulumi:tags", "aws:region") are skipped. `inventory` are
    the hosts of the file that they name. Raises ConfigError with every problem.
    """
    origin = origin or Origin(source=source, namespace=NAMESPACE)
    own = {
        key.removeprefix(NAMESPACE): _decoded(value)
        for key, value in values.items()
        if key.startswith(NAMESPACE) or ":" not in key
    }
    raise_if_any(_target_problems(own, origin))  # the target decides which settings exist
    settings = validated(SETTINGS[own["target"]], own, origin).checked(origin, tuple(inventory))
    return Environment(name=name, settings=settings, origin=origin)


def _target_problems(values: Mapping[str, Any], origin: Origin) -> list[Problem]:
    target = values.get("target")
    if target in TARGETS:
        return []
    names = ", ".join(f"'{name}'" for name in TARGETS[:-1]) + f" or '{TARGETS[-1]}'"
    if "target" in values:
        fix = suggestion(str(target), TARGETS)
        return [origin.problem(("target",), f"must be {names}", value=target, fix=fix)]
    if misspelt := get_close_matches("target", values, n=1):
        fix = "did you mean `target`?"
        return [origin.problem((misspelt[0],), "unknown key", fix=fix)]
    return [origin.problem(("target",), f"must be {names}", fix="add `target:`")]


def _decoded(value: Any) -> Any:
    """Pulumi passes every value to programs as text: objects, numbers and booleans as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
