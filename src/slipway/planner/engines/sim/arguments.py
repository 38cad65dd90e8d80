"""What `engine_args` of a simulated engine may contain.

These are the rules by which services/engine_sim reads its document (simulator/document.py and
faults.py): what it would refuse at its start is refused here, before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from slipway.config.document import Origin
from slipway.config.errors import Problem, suggestion


class Rule(NamedTuple):
    accepts: Callable[[Any], bool]
    allowed: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_moment(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value)


def _is_share(value: Any) -> bool:
    return isinstance(value, bool) or (_is_number(value) and value <= 1)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


COUNT = Rule(_is_count, "a whole number of at least 1")
NUMBER = Rule(_is_number, "a number of at least 0")
MOMENT = Rule(_is_moment, "true, false or a number of tokens")
SHARE = Rule(_is_share, "a share of the requests, 0 to 1")
SWITCH = Rule(_is_switch, "true or false")

# Tools, adapters and structured output are not simulated.
ARGUMENTS: Mapping[str, Rule] = {
    "max_num_batched_tokens": COUNT,
    "answer_tokens": COUNT,
    "time_scale": NUMBER,
    "faults": Rule(_is_mapping, "a mapping of faults"),
}
FAULTS: Mapping[str, Rule] = {
    "slow": NUMBER,
    "hang": MOMENT,
    "die": MOMENT,
    "error": SHARE,
    "kv_full": SWITCH,
    "not_ready": SWITCH,
    "no_start": SWITCH,
}


def argument_problems(arguments: Mapping[str, Any], origin: Origin) -> Iterator[Problem]:
    key = ("engine", "engine_args")
    yield from _problems(arguments, ARGUMENTS, "an argument of engine kind sim", key, origin)
    faults = arguments.get("faults")
    if isinstance(faults, Mapping):
        yield from _problems(faults, FAULTS, "a fault of engine kind sim", (*key, "faults"), origin)


def _problems(
    values: Mapping[str, Any],
    rules: Mapping[str, Rule],
    what: str,
    key: tuple[str, ...],
    origin: Origin,
) -> Iterator[Problem]:
    for name, value in values.items():
        rule = rules.get(name)
        if rule is None:
            yield origin.problem(
                (*key, name), f"is not {what}", value=value, fix=suggestion(name, rules)
            )
        elif not rule.accepts(value):
            yield origin.problem(
                (*key, name), f"must be {rule.allowed}", value=value, fix="change it, or remove it"
            )
