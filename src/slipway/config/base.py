"""The pydantic base of everything a user writes, and the types shared by its parts."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|TiB)")

CUSTOM_ERROR = "slipway"  # PydanticCustomError type whose context holds the fix


class Settings(BaseModel):
    """Frozen, and no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Tagged(Settings):
    """A member of a discriminated union; TAG says which."""

    TAG: ClassVar[str]


def invalid(message: str, *, fix: str) -> PydanticCustomError:
    """An error for a validator to raise: what is allowed, and how to put it right."""
    return PydanticCustomError(CUSTOM_ERROR, "{message}", {"message": message, "fix": fix})


def parse_size(value: Any) -> int:
    """Bytes of a size such as "1GiB" or "512 MiB"."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise invalid(
            f"must be a size with one of the units {', '.join(_UNITS)}", fix='write e.g. "4GiB"'
        )
    size = int(float(match[1]) * _UNITS[match[2]])
    if size == 0:
        raise invalid("must be more than nothing", fix='write e.g. "4GiB"')
    return size


def matching(pattern: str, *, allowed: str, example: str) -> AfterValidator:
    """Text that matches the whole `pattern`; `allowed` says so in words, for the error."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise invalid(f"must be {allowed}", fix=f"write e.g. {example}")
        return text

    return AfterValidator(check)


SizeBytes = Annotated[int, BeforeValidator(parse_size)]
PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0, strict=False)]
Seconds = Annotated[int, Field(ge=1)]
# Names become Consul services "model-<name>-<digest>-openai" and node names "<pool>-<k>": DNS
# labels of at most 63 characters.
ResourceName = Annotated[
    str,
    matching(
        "[a-z]([a-z0-9-]{0,38}[a-z0-9])?",
        allowed="at most 40 lower-case letters, digits and inner hyphens, a letter first",
        example="cpu-large",
    ),
]
