"""settings.yaml: the stage of an environment, and what the rules cannot read from a preview."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from rules.rule import Settings, Stage
from waivers import InputError

ONE_MACHINE = "dev"  # the target that runs on the user's own machine
_KEYS = {"stages", "allowed_licenses", "max_price_age_days"}


def read_settings(path: Path) -> Mapping[str, Any]:
    """The checked document. Raises InputError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"{path.name}: is not YAML: {error}") from None
    if not isinstance(document, Mapping) or set(document) != _KEYS:
        raise InputError(f"{path.name}: needs exactly the keys {', '.join(sorted(_KEYS))}")
    stages = document["stages"]
    known = {stage.value for stage in Stage}
    if not isinstance(stages, Mapping) or not set(stages) <= known:
        raise InputError(f"{path.name}: stages: may only have {', '.join(sorted(known))}")
    for key, patterns in (*stages.items(), ("allowed_licenses", document["allowed_licenses"])):
        if not (isinstance(patterns, list) and all(isinstance(each, str) for each in patterns)):
            raise InputError(f"{path.name}: {key}: is not a list of strings")
    days = document["max_price_age_days"]
    if not isinstance(days, int) or isinstance(days, bool) or days < 1:
        raise InputError(f"{path.name}: max_price_age_days: {days!r} is not a number of days")
    return document


def stage_of(environment: str, settings: Mapping[str, Any], *, target: str) -> Stage:
    """A name that matches no pattern means development on one machine, otherwise production: the
    strictest stage when in doubt."""
    for stage, patterns in settings["stages"].items():
        if any(fnmatch.fnmatchcase(environment, pattern) for pattern in patterns):
            return Stage(stage)
    return Stage.DEVELOPMENT if target == ONE_MACHINE else Stage.PRODUCTION


def rule_settings(
    settings: Mapping[str, Any], *, today: datetime.date, usd_per_hour_before: float | None
) -> Settings:
    return Settings(
        today=today,
        allowed_licenses=frozenset(settings["allowed_licenses"]),
        max_price_age_days=settings["max_price_age_days"],
        usd_per_hour_before=usd_per_hour_before,
    )
