from __future__ import annotations

import pytest

from slipway.config.model import SOURCE_KINDS
from slipway.plan.facts import source_facts

PINS = {"revision": "main", "sha256": "abc"}


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_a_source_is_named_by_its_kind_and_by_what_pins_it(kind: str) -> None:
    pinned_by = "abc" if kind == "package" else "main"
    facts = source_facts({kind: "weights"} | PINS)
    assert facts == {"kind": kind, "name": "weights", "revision": pinned_by}


def test_an_engine_that_loads_no_weights_has_no_source() -> None:
    assert source_facts(None) == {}
