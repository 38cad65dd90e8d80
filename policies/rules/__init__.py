"""The rules, by group. Every rule function in a group's module is registered."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from rules import capacity, cost, data, machines, network, nomad, permissions, security
from rules.rule import Rule

_MODULES = (capacity, cost, network, security, nomad, data, machines, permissions)


def _rules_of(module: ModuleType) -> tuple[Rule, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Rule))


def _title(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].capitalize()


# "Capacity" -> its rules, both in the order of the source.
GROUPS: Mapping[str, tuple[Rule, ...]] = {_title(module): _rules_of(module) for module in _MODULES}
RULES: tuple[Rule, ...] = tuple(rule for rules in GROUPS.values() for rule in rules)
