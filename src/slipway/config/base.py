"""The pydantic base of all user settings, and the types they share."""

from __future__ import annotations

import ipaddress
import math
import re
import sys
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

# Upper limits: above any real fleet, and low enough that products of settings do not overflow and
# loops over them end.
MOST_TOKENS = 10_000_000  # per request
MOST_DEVICES = 1024  # per replica or node
MOST_REPLICAS = 1000  # per model
MOST_NODES = 10_000  # per pool
_MOST_BYTES = 2**50
_LEAST_FRACTION = 1e-9  # dividing by less gives infinity

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|TiB)")

CUSTOM_ERROR = "slipway"  # the PydanticCustomError type whose context holds the fix


class Settings(BaseModel):
    """Frozen; unknown keys are refused. EXAMPLE is shown where the user did not write a mapping."""

    EXAMPLE: ClassVar[str] = ""
    # A validator is built when it is first used: most kinds of settings are only parts of another
    # one's, whose validator includes theirs.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Tagged(Settings):
    """A member of a discriminated union, identified by TAG."""

    TAG: ClassVar[str]


def invalid(message: str, *, fix: str) -> PydanticCustomError:
    """An error for a validator to raise: what is allowed, and how to fix it."""
    return PydanticCustomError(CUSTOM_ERROR, "{message}", {"message": message, "fix": fix})


def parse_size(value: Any) -> int:
    """Bytes of a size such as "1GiB" or "512 MiB"."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise invalid(
            f"must be a size with one of the units {', '.join(_UNITS)}", fix='write e.g. "4GiB"'
        )
    size = float(match[1]) * _UNITS[match[2]]
    if size < 1:
        raise invalid("must be at least one byte", fix='write e.g. "4GiB"')
    if size > _MOST_BYTES:
        raise invalid("must be at most 1024TiB", fix="use 1024TiB or less")
    return int(size)


def _number(value: Any) -> Any:
    """pydantic accepts true as 1, and says that an integer too large for a float is not a
    number."""
    if isinstance(value, bool):
        raise invalid("must be a number", fix="give a number")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return math.inf if value > 0 else -math.inf
    return value


def _not_tiny(value: float) -> float:
    if value < _LEAST_FRACTION:
        raise invalid(f"must be at least {_LEAST_FRACTION:.9f}", fix="use a larger number")
    return value


def matching(pattern: str, *, allowed: str, example: str) -> AfterValidator:
    """Text that matches the whole `pattern`, which the error describes as `allowed`."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise invalid(f"must be {allowed}", fix=f"write e.g. {example}")
        return text

    return AfterValidator(check)


def _ipv4_address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise invalid("is not an IPv4 address", fix="write it like 10.50.0.13") from None


Ipv4 = Annotated[str, AfterValidator(_ipv4_address)]
SizeBytes = Annotated[int, BeforeValidator(parse_size)]
PositiveInt = Annotated[int, Field(ge=1, le=100_000_000)]
Count = Annotated[int, Field(ge=1, le=MOST_NODES)]  # of nodes, cores, layers
Devices = Annotated[int, Field(ge=1, le=MOST_DEVICES)]
Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Seconds = Annotated[int, Field(ge=1, le=604_800)]  # a week
_Positive = Annotated[
    float, Field(gt=0, strict=False), BeforeValidator(_number), AfterValidator(_not_tiny)
]
NotNegativeFloat = Annotated[float, Field(ge=0, le=1e9, strict=False), BeforeValidator(_number)]
PositiveFloat = Annotated[_Positive, Field(le=1e9)]
RequestsPerS = Annotated[_Positive, Field(le=1e6)]
UsdPerHour = Annotated[_Positive, Field(le=1e6)]
# Names become Consul services "model-<name>-<digest>-openai" and node names "<pool>-<k>": DNS
# labels of at most 63 characters.
ResourceName = Annotated[
    str,
    matching(
        "[a-z]([a-z0-9-]{0,38}[a-z0-9])?",
        allowed="at most 40 lower-case letters, digits and inner hyphens, starting with a letter",
        example="cpu-large",
    ),
]
