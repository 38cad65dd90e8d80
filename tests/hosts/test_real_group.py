"""A real model in two stages, on a host each: Triton and vLLM on processors, by the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import yaml

from tests.hosts.bed import NETWORK, Bed
from tests.hosts.conftest import ADDRESSES as THREE_HOSTS
from tests.hosts.environment import Checkout, environment, listed, must_know_a_capital
from tests.hosts.groups import MEMBERS, members
from tests.waiting import HANG_S

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

MODEL = "smollm2"
WORKERS = {f"worker-{k}": f"{NETWORK}.2{1 + k}" for k in range(MEMBERS)}
ADDRESSES = {**THREE_HOSTS, **WORKERS}
GATEWAY = f"http://{ADDRESSES['edge-0']}:8080"
FABRIC = {"kind": "tcp", "allow_tcp": True}
MODELS = {MODEL: {"pool": "cpu", "replicas": {"min": 1, "max": 1}}}
SETTINGS = {
    "pools": {
        "cpu": {
            "kind": "metal",
            "hosts": listed(WORKERS),
            "memory": "16GiB",
            "cpu": 8,
            "fabric": FABRIC,
        },
        "edge": {
            "kind": "metal",
            "hosts": listed({"edge-0": ADDRESSES["edge-0"]}),
            "memory": "4GiB",
            "cpu": 2,
        },
    },
    "models": MODELS,
}
SUBJECTS = (
    "the sea", "a mountain", "the number seven", "rain", "bread", "a library", "the moon",
    "an engine", "winter", "a bridge", "salt", "a river", "the alphabet", "glass", "a clock",
    "honey", "a train", "the desert", "paper", "music", "a garden",
)  # fmt: skip


@pytest.fixture(scope="module")
def addresses() -> dict[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    with environment(hosts, tmp_path_factory, models={}, settings=SETTINGS) as made:
        yield made


def continued(prompt: str) -> list[str]:
    """The tokens that the model continues with at temperature 0."""
    answer = httpx.post(
        f"{GATEWAY}/v1/completions",
        json={
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": 24,
            "temperature": 0,
            "logprobs": 1,
        },
        timeout=HANG_S,
    ).raise_for_status()
    tokens: list[str] = answer.json()["choices"][0]["logprobs"]["tokens"]
    return tokens


def test_two_hosts_answer_over_both_protocols_as_one_does(checkout: Checkout) -> None:
    prompts = [f"Here is what I know about {subject}:" for subject in SUBJECTS]
    checkout.slipway("up")
    on_one_host = [continued(prompt) for prompt in prompts]
    assert len({member.host for member in members(checkout, MODEL)}) == 1

    checkout.put("models", {})  # a replica of more hosts than before needs them free
    checkout.slipway("up")
    path = checkout.folder / f"models/{MODEL}.yaml"
    model = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**model, "parallel": {"pipeline": MEMBERS}}))
    checkout.put("models", MODELS)
    checkout.slipway("up")
    assert {member.host for member in members(checkout, MODEL)} == set(WORKERS)
    assert [continued(prompt) for prompt in prompts] == on_one_host
    must_know_a_capital(checkout, ADDRESSES["edge-0"], MODEL)
