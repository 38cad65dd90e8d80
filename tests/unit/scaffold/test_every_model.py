"""Every model of the catalog on every environment of this checkout: a file that plans, or a refusal
that names what would fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slipway.config.document import parse_document, read_text
from slipway.config.environment import parse_environment
from slipway.config.files import stack_file
from slipway.config.model import parse_model
from slipway.planner.platform import draft_plan
from slipway.scaffold.adding import Addition, add_model
from slipway.scaffold.comments import model_title
from slipway.scaffold.model_file import model_text
from slipway.scaffold.request import RefusedError
from slipway.scaffold.text import one_line, with_entry
from tests.unit.plan.samples import ROOT
from tests.unit.planner.fleets import CATALOG
from tests.unit.scaffold.environments import SHIPPED, request, surroundings

# What a refusal names: accelerators or a pool that would hold the model, or the change that makes
# room for it.
WOULD_FIT = re.compile(
    r"it would fit on \d+ x \S+"
    r"|split it over several"
    r"|raise the nodes of pool (\S+) from (\d+) to (\d+)"
    r"|have slipway:budget\.\w+ raised to \d+"
    r"|lower replicas\.max of \S+ from \d+ to \d+"
    r"|relax --ttft-p95-ms"
)


@pytest.mark.thorough
@pytest.mark.parametrize("environment", SHIPPED)
def test_every_model_of_the_catalog_plans_from_its_file_or_is_refused_with_what_would_fit(
    environment: str,
) -> None:
    around = surroundings(environment)
    added, refused = [], {}
    for key, architecture in CATALOG.models.items():
        try:
            made = add_model(request(environment, key, architecture), around)
        except RefusedError as error:
            refused[key] = f"{error.message}; {error.fix}"
            continue
        assert_plans_from_its_text(environment, key, made)
        added.append(key)
    assert len(added) + len(refused) == len(CATALOG.models)
    assert [text for text in refused.values() if WOULD_FIT.search(text) is None] == []


def assert_plans_from_its_text(environment: str, key: str, made: Addition) -> None:
    """The texts mean what was planned."""
    assert made.model is not None
    inputs = surroundings(environment).inputs
    file = parse_document(
        model_text(made.model, model_title(key, made.planned, simulated=False)),
        source="models/newcomer.yaml",
    )
    source = stack_file(environment)
    stack = with_entry(
        read_text(ROOT / source, source=source),
        ("config", "slipway:models"),
        "newcomer",
        one_line(made.deployment),
    )
    config = parse_document(stack, source=source).values["config"]
    read = replace(
        inputs,
        environment=parse_environment(config, name=environment, source=source),
        models={**inputs.models, "newcomer": parse_model(file.values, origin=file.origin)},
    )
    draft = draft_plan(read)
    assert next(each for each in draft.models if each.name == "newcomer").memory == (
        made.planned.memory
    )
    assert draft.cost == made.draft.cost


def test_both_outcomes_occur_and_a_small_model_joins_the_smallest_environment() -> None:
    small, large = CATALOG.models["smollm2-135m"], CATALOG.models["llama-3.1-8b"]
    around = surroundings("dev")
    made = add_model(request("dev", "smollm2-135m", small), around)
    assert made.deployment == {"pool": "cpu", "replicas": {"min": 1, "max": 2}}
    with pytest.raises(RefusedError, match="no pool can hold newcomer") as caught:
        add_model(request("dev", "llama-3.1-8b", large), around)
    assert "1 x L4" in caught.value.fix
    assert "pool cpu would hold qwen2.5-1.5b" in caught.value.fix
    assert "--simulated" in caught.value.fix
