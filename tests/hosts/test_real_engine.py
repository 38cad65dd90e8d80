"""A real model on a host: Triton and vLLM run from what was brought there."""

from __future__ import annotations

import httpx
import pytest

from tests.hosts.conftest import ADDRESSES
from tests.hosts.environment import Checkout

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

MODEL = "smollm2"
GATEWAY = f"http://{ADDRESSES['edge-0']}:8080"


def test_a_real_model_answers_through_the_gateway(checkout: Checkout) -> None:
    checkout.put("models", {MODEL: {"pool": "cpu", "replicas": {"min": 1, "max": 1}}})
    checkout.slipway("up")
    question = {"role": "user", "content": "What is the capital of France?"}
    answer = httpx.post(
        f"{GATEWAY}/v1/chat/completions",
        json={"model": MODEL, "messages": [question], "max_tokens": 16, "temperature": 0},
        timeout=60,
    ).raise_for_status()
    assert "Paris" in answer.json()["choices"][0]["message"]["content"]
    assert "Paris" in checkout.slipway("chat", MODEL, question["content"], "--grpc").stdout
