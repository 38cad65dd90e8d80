"""The keys of a config.json, with the defaults that its file may leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slipway.config.errors import ConfigError, Problem

T = TypeVar("T", str, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The values of a file, or of one `section` of it ("text_config.").

    A key that is written counts, null included; else its default. Every method that reads a number
    raises ConfigError when the value is none.
    """

    source: str
    values: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    section: str = ""

    def get(self, key: str) -> Any:
        return self.values.get(key, self.defaults.get(key))

    def number(self, *spellings: str, least: int = 1) -> int:
        """The value of the first spelling that is written, else of the first with a default."""
        key = self._spelled(spellings)
        value = self.get(key)
        if value is None:
            raise self.refusal(key, "is required", fix=f"add `{key}`")
        return self._whole(key, value, least)

    def optional(self, *spellings: str, least: int = 1) -> int | None:
        """None for null and for a missing key without a default."""
        key = self._spelled(spellings)
        value = self.get(key)
        return None if value is None else self._whole(key, value, least)

    def written(self, key: str) -> int:
        """The number of a key for which no default is taken."""
        if key not in self.values:
            raise self.refusal(key, "is required", fix=f"add `{key}`")
        return self.number(key)

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refusal(key, "must be true or false", value=value, fix="use true or false")
        return bool(value)

    def name(self, key: str) -> str | None:
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refusal(key, "must be text", value=value, fix="correct the value")
        return value

    def names(self, key: str) -> list[str]:
        """A list of texts; empty where there is none."""
        return self._list(key, str, "texts")

    def numbers(self, key: str) -> list[int]:
        """A list of whole numbers; empty where there is none."""
        return self._list(key, int, "whole numbers")

    def below(self, key: str) -> Keys:
        """The mapping under `key`; empty where there is none."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.refusal(key, "must be a mapping", value=value, fix="correct the value")
        section = f"{self.section}{key}."
        return Keys(source=self.source, values=value or {}, section=section)

    def refusal(self, key: str, message: str, *, fix: str, value: Any = None) -> ConfigError:
        """The error for a value that would be counted wrongly."""
        problem = Problem(
            source=self.source, key=f"{self.section}{key}", message=message, value=value, fix=fix
        )
        return ConfigError([problem])

    def _list(self, key: str, kind: type[T], kinds: str) -> list[T]:
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or not all(type(each) is kind for each in value):
            raise self.refusal(
                key, f"must be a list of {kinds}", value=value, fix="correct the value"
            )
        return list(value)

    def _spelled(self, spellings: tuple[str, ...]) -> str:
        known = (each for each in spellings if each in self.values)
        usual = (each for each in spellings if each in self.defaults)
        return next(known, next(usual, spellings[0]))

    def _whole(self, key: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.refusal(
                key,
                f"must be a whole number of {least} or more",
                value=value,
                fix="correct the value",
            )
        return value
