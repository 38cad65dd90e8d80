"""The environments of this checkout on a machine of fixed size, and requests to join them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from slipway.config.catalog import Architecture
from slipway.inputs import load_inputs_without_certificate
from slipway.scaffold.request import Request, Weights
from slipway.scaffold.surroundings import Surroundings
from tests.unit.plan.samples import MACHINE, ROOT

SHIPPED = ("dev", "aws", "metal", "hosts")
COMMIT = "0123456789abcdef" * 2 + "01234567"
LOAD = {"requests_per_s": 1, "input_tokens": 500, "output_tokens": 200}
GOAL = {"ttft_p95_ms": 2000, "tpot_p95_ms": 100}


@cache
def surroundings(environment: str) -> Surroundings:
    inputs = load_inputs_without_certificate(ROOT, environment)
    return Surroundings(inputs=replace(inputs, machine=MACHINE))


def request(environment: str, key: str, architecture: Architecture, **changes: Any) -> Request:
    """For a new name, as `slipway models add` makes it: a fleet is planned for a load."""
    source = {"hf": architecture.hub[0], "revision": COMMIT}
    is_fleet = environment != "dev"
    values: dict[str, Any] = {
        "name": "newcomer",
        "weights": Weights(source=source, stated=None, known_as=key, architecture=architecture),
        "load": LOAD if is_fleet else None,
        "goal": GOAL if is_fleet else None,
    }
    return Request(**values | changes)
