"""An environment of this machine that `slipway init` alone describes: judged, up, answering."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator

import httpx
import pytest

from tests.live.environments import Platform, copy_tree
from tests.waiting import HANG_S

pytestmark = [pytest.mark.live, pytest.mark.apart]

MODELS = {"one": "llama-3.1-8b", "two": "qwen3-8b"}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Not up yet."""
    checkout = tmp_path_factory.mktemp("described")
    copy_tree(checkout)
    platform = Platform(checkout=checkout, name="first", network="127.85.0")
    asked = [word for name, model in MODELS.items() for word in ("--model", f"{name}={model}")]
    network = f"{platform.network}.0/24"
    platform.slipway(
        *("init", "--target", "dev", "--network", network, "--simulated", *asked, "--yes")
    )
    try:
        yield platform
    finally:
        platform.slipway("down", "--yes", check=False)
        shutil.rmtree(checkout)


def test_it_keeps_every_policy_and_both_models_answer(described: Platform) -> None:
    assert json.loads(described.slipway("policies", "--json").stdout)["findings"] == []
    platform = dataclasses.replace(described, first_up=described.up())
    for model in MODELS:
        answer = httpx.post(
            f"{platform.http}/v1/completions",
            json={"model": model, "prompt": "hi", "max_tokens": 4},
            timeout=HANG_S,
        ).raise_for_status()
        assert answer.json()["usage"]["completion_tokens"] == 4
        platform.slipway("chat", model, "hi", "--grpc")
