"""Thresholds of catalog/fabric_thresholds.yaml, as the document of a check has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CATALOG: dict[str, Any] = yaml.safe_load((ROOT / "catalog/fabric_thresholds.yaml").read_text())
_OF_LINKS = ("bandwidth_share", "rail_share", "latency_us", "jitter_us")


def entry(values: dict[str, Any], value_key: str) -> dict[str, Any]:
    return {
        "value": values[value_key],
        "source": values["source"],
        "date": str(values["date"]),
    }


def thresholds(kind: str) -> dict[str, Any]:
    return {name: entry(CATALOG["links"][kind][name], "value") for name in _OF_LINKS}
