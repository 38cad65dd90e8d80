"""The plan that an environment was last brought up with."""

from __future__ import annotations

from slipway.cli.applied import from_document, recorded
from slipway.cli.environment import Environment
from tests.unit.cli.documents import plan_document


def test_nothing_recorded_is_no_plan(environment: Environment) -> None:
    assert recorded(environment) is None


def test_the_shown_answer_is_a_real_engines_before_a_simulated_ones() -> None:
    document = plan_document()
    applied = from_document(document)
    assert applied.shown_model is not None
    assert applied.shown_model.name == "smollm2"
    document["models"] = document["models"][:1]
    shown = from_document(document).shown_model
    assert shown is not None
    assert shown.name == "sim-a"
    document["models"] = []
    assert from_document(document).shown_model is None
