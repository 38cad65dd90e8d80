"""docs/policies.md."""

from __future__ import annotations

from pathlib import Path

from manual import manual
from rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_page_is_current() -> None:
    """After an intended change: python policies/manual.py > docs/policies.md"""
    assert PAGE.read_text() == manual()


def test_every_rule_has_a_section_under_the_anchor_that_reports_link_to() -> None:
    text = manual()
    for rule in RULES:
        assert f"\n### {rule.id}\n" in text
        assert f"[{rule.id}](#{rule.id})" in text
