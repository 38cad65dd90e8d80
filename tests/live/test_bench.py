"""`slipway bench` on a running platform, against what the engines say of the same requests."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from typing import Any

import httpx
import pytest

from components.serving.services import service_of
from tests.live.environments import Platform
from tests.live.models import backends
from tests.schemas import validate
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.live

MODEL = "sim-a"
REQUESTS = 2  # of each step: one after the other, then all at once
STEPS = ("--concurrency", f"1,{REQUESTS}", "--requests", str(REQUESTS))
ANSWERED = "vllm:request_success_total"
SAMPLE = re.compile(r"^(vllm:\w+_total)\{[^}]*\} (\S+)$", re.MULTILINE)


def told(platform: Platform) -> Counter[str]:
    """The counters of all replicas together."""
    counters = Counter[str]()
    for name in backends(platform, MODEL):
        for entry in platform.consul(f"health/service/{service_of(name, 'http')}?passing=1"):
            service = entry["Service"]
            url = f"http://{service['Address']}:{service['Port']}/metrics"
            page = httpx.get(url, timeout=HANG_S).raise_for_status().text
            for metric, value in SAMPLE.findall(page):
                counters[metric] += round(float(value))
    return counters


def document(done: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done)
    validate(found, "bench")
    return found


def test_requests_and_tokens_are_those_of_the_engines(platform: Platform) -> None:
    """Over both protocols, one first question each included."""
    before = told(platform)
    found = document(platform.slipway("bench", MODEL, *STEPS, "--json").stdout)
    grown = told(platform) - before
    assert [(step["protocol"], step["clients"]) for step in found["steps"]] == [
        ("http", 1),
        ("http", REQUESTS),
        ("grpc", 1),
        ("grpc", REQUESTS),
    ]
    assert found["simulated"]
    assert [step["errors"] for step in found["steps"]] == [{}] * 4
    assert [step["answered"] for step in found["steps"]] == [REQUESTS] * 4
    assert grown[ANSWERED] == 4 * REQUESTS + 2
    assert {step["output_tokens"] for step in found["steps"]} == {100}  # no load is declared
    assert grown["vllm:generation_tokens_total"] == 100 * (4 * REQUESTS + 2)
    assert {step["input_tokens"] for step in found["steps"]} == {200}
    assert grown["vllm:prompt_tokens_total"] == 200 * (4 * REQUESTS + 2)


def test_ctrl_c_ends_it_with_what_was_measured(platform: Platform) -> None:
    before = told(platform)
    command = platform.command(
        *("bench", MODEL, "--concurrency", "1,2", "--requests", "2000", "--json")
    )
    with subprocess.Popen(
        command,
        cwd=platform.checkout,
        env=platform.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # One answer is that to its own question before the first step, another may be on its way.
        until(lambda: (told(platform) - before)[ANSWERED] > 2 or None, "an answer of the step")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    found = document(stdout)
    assert found["interrupted"]
    (step,) = found["steps"]
    assert step["requests"] == step["answered"] >= 1
    assert step["dropped"] == 1
    assert "Traceback" not in stderr
