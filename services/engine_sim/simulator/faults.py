"""Injected faults, and how a request or an operator asks for them.

As text (header `x-slipway-fault`, sampling parameter or body field `slipway_fault`):
`slow=10`, `hang`, `hang=5`, `die`, `die=5`, `error`; several are joined by commas.
As JSON (`/sim/faults`, `engine_args.faults`) the same names, and `error` as a rate,
`kv_full`, `not_ready` and `no_start` as booleans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FAULT_HEADER = "x-slipway-fault"


class BadFaultError(ValueError):
    """An unknown fault, or an invalid value."""


class InjectedError(Exception):
    """The request fails as if the engine had raised."""


class InjectedDeath(Exception):  # noqa: N818 - it is not an error of this program
    """The stream ends as if the process had been killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """`hang` and `die` count the output tokens delivered before; None means never."""

    slow: float = 1.0  # factor on token times
    hang: int | None = None
    die: int | None = None
    error: float = 0.0  # share of requests, 0 to 1
    kv_full: bool = False
    not_ready: bool = False
    no_start: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


NONE = Faults()
_NAMES = tuple(asdict(NONE))
_OF_THE_PROCESS = ("kv_full", "not_ready", "no_start")


def parse_text(text: str) -> Faults:
    """Faults of one request.

    Raises:
        BadFaultError: an unknown name, a wrong value, or a fault of the whole process.
    """
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name in _OF_THE_PROCESS:
            raise BadFaultError(f"{name!r} is a fault of the process: set it through /sim/faults")
        if name == "slow" and not value:
            raise BadFaultError("'slow' needs a factor, for example slow=10")
        values[name] = _number(name, value) if value else True
    return parse_json(values)


def parse_json(values: Mapping[str, Any]) -> Faults:
    """Faults from a JSON object; `true` is the shortest form of hang, die and error.

    Raises:
        BadFaultError: an unknown name or a wrong value.
    """
    unknown = sorted(set(values) - set(_NAMES))
    if unknown:
        raise BadFaultError(f"unknown fault {unknown[0]!r}; use one of: {', '.join(_NAMES)}")
    return Faults(
        slow=_at_least("slow", values.get("slow", 1.0), 0),
        hang=_token_count("hang", values.get("hang")),
        die=_token_count("die", values.get("die")),
        error=_share("error", values.get("error", 0.0)),
        kv_full=_boolean("kv_full", values.get("kv_full", False)),
        not_ready=_boolean("not_ready", values.get("not_ready", False)),
        no_start=_boolean("no_start", values.get("no_start", False)),
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadFaultError(f"{name}={text!r}: the value must be a number") from None


def _at_least(name: str, value: object, minimum: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= minimum:
        raise BadFaultError(f"{name}={value!r}: the value must be a number of at least {minimum}")
    return float(value)


def _token_count(name: str, value: object) -> int | None:
    if value is None or value is False:
        return None
    return 0 if value is True else int(_at_least(name, value, 0))


def _share(name: str, value: object) -> float:
    share = float(value) if isinstance(value, bool) else _at_least(name, value, 0)
    if share > 1:
        raise BadFaultError(f"{name}={value!r}: the value must lie between 0 and 1")
    return share


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadFaultError(f"{name}={value!r}: the value must be true or false")
    return value
