"""A real model on a host: Triton and vLLM run from what was brought there."""

from __future__ import annotations

import pytest

from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout, must_know_a_capital

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

MODEL = "smollm2"


def test_a_real_model_answers_through_the_gateway(checkout: Checkout) -> None:
    checkout.put("models", {MODEL: {"pool": "cpu", "replicas": {"min": 1, "max": 1}}})
    checkout.slipway("up")
    must_know_a_capital(checkout, ADDRESSES["edge-0"], MODEL)
