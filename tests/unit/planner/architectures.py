"""Architectures for tests: known ones by key, and made-up ones."""

from __future__ import annotations

import datetime
from typing import Any

from slipway.config.catalog import Architecture, load_catalog
from tests.unit.plan.samples import ROOT

CATALOG = load_catalog(ROOT)
MODELS, ACCELERATORS = CATALOG.models, CATALOG.accelerators


def made_up(**changes: Any) -> Architecture:
    """4 layers of 8 heads of 8, two of them for keys and values."""
    values: dict[str, Any] = {
        "parameters": 1_000_000,
        "layers": 4,
        "hidden": 64,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 8,
        "intermediate": 256,
        "vocabulary": 1000,
        "context": 4096,
        "source": "made up",
        "date": datetime.date(2026, 11, 21),
        "confidence": "unverified",
    }
    return Architecture.model_validate(values | changes)
