"""Waivers: accepted findings, each with an owner and an expiry date (waivers.yaml)."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml


class InputError(Exception):
    """A mistake in a file that people write; the message names file, key and fix."""


@dataclass(frozen=True, kw_only=True)
class Waiver:
    rule: str
    resource: str  # a name; * matches any text
    owner: str
    reason: str
    expires: datetime.date  # the last valid day

    def covers(self, rule: str, resource: str) -> bool:
        return rule == self.rule and fnmatch.fnmatchcase(resource, self.resource)

    def has_expired(self, today: datetime.date) -> bool:
        return today > self.expires

    def __str__(self) -> str:
        return f"{self.owner}, until {self.expires}: {self.reason}"


def read_waivers(path: Path, known_rules: Collection[str]) -> tuple[Waiver, ...]:
    """Raises InputError, naming the entry and its key."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"{path.name}: is not YAML: {error}") from None
    if not isinstance(document, Mapping) or not isinstance(document.get("waivers"), Sequence):
        raise InputError(f"{path.name}: needs a list `waivers:`; write `waivers: []` for none")
    return tuple(
        _waiver(entry, f"{path.name}: waivers[{index}]", known_rules)
        for index, entry in enumerate(document["waivers"])
    )


def _waiver(entry: Any, place: str, known_rules: Collection[str]) -> Waiver:
    keys = [field.name for field in fields(Waiver)]
    if not isinstance(entry, Mapping) or set(entry) != set(keys):
        raise InputError(f"{place}: needs exactly the keys {', '.join(keys)}")
    for key in ("rule", "resource", "owner", "reason"):
        if not (isinstance(entry[key], str) and entry[key].strip()):
            raise InputError(f"{place}.{key}: {entry[key]!r} must be non-empty text")
    if entry["rule"] not in known_rules:
        raise InputError(
            f"{place}.rule: there is no rule {entry['rule']!r}; docs/policies.md lists them"
        )
    # To Python a datetime is a date as well, but the two cannot be compared.
    if type(entry["expires"]) is not datetime.date:
        raise InputError(
            f"{place}.expires: {entry['expires']!r} is not a date; write it as 2027-01-31"
        )
    return Waiver(**entry)
