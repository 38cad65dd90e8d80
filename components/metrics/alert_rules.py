"""Files of alerting rules, evaluated by Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

Rule = dict[str, Any]


def alert(name: str, expression: str, summary: str, fix: str, *, for_s: int = 0) -> Rule:
    """One rule. `expression` must hold for `for_s` seconds; texts may name labels."""
    return {
        "alert": name,
        "expr": expression,
        **({"for": f"{for_s}s"} if for_s else {}),
        "labels": {"severity": "warning"},
        "annotations": {"summary": summary, "fix": fix},
    }


def rule_file(group: str, rules: Sequence[Rule]) -> str:
    groups = [{"name": group, "rules": list(rules)}]
    return yaml.safe_dump({"groups": groups}, sort_keys=True)
