"""What the clients of `slipway bench` see is what the simulated engine says of the same requests.

Both run on one simulated clock, so what is compared does not depend on this machine's speed.
bench/client_truth.py compares them on a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slipway.config.artifacts import SIMULATOR_PROFILES
from tests.unit.cli.bench.documents import replica_document
from tests.unit.plan.samples import ROOT
from tests.waiting import HANG_S
from tests.workers import WORKER
from toolchain.prepare import EnvironmentJob, prepare
from toolchain.settings import default_cache

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).with_name("on_simulated_clock.py")
SERVICE = ROOT / "services/engine_sim"
PROFILE = "cpu-smollm2"
CLIENTS = (1, 8, 32)
REQUESTS_OF_EACH, INPUT_TOKENS, OUTPUT_TOKENS = 3, 40, 24
HARDLY = 1e-6  # a turn of the simulated loop is a nanosecond


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the number of clients: what they saw, and what the engine told."""
    job = EnvironmentJob(name="engine_sim-test", requirements=SERVICE / "requirements-test.txt")
    python = prepare([job], default_cache())[job.name] / "bin/python"
    document = tmp_path_factory.mktemp("truth") / "replica.json"
    document.write_text(json.dumps(replica_document(PROFILE)))
    path = [SERVICE, ROOT / "services/testing", ROOT, ROOT / "src"]
    done = subprocess.run(
        [python, PROGRAM, document, str(8100 + WORKER)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("clients", CLIENTS)
def test_ttft_and_tpot_are_those_of_the_engines_histograms(
    measured: dict[str, Any], clients: int
) -> None:
    seen, told = measured[str(clients)]["seen"], measured[str(clients)]["told"]
    for figure, histogram in (
        ("ttft_ms", "vllm:time_to_first_token_seconds"),
        ("tpot_ms", "vllm:inter_token_latency_seconds"),
    ):
        mean_ms = 1000 * told[f"{histogram}_sum"] / told[f"{histogram}_count"]
        assert seen[figure]["mean"] == pytest.approx(mean_ms, rel=HARDLY)


@pytest.mark.parametrize("clients", CLIENTS)
def test_percentiles_are_the_profiles_step_times(measured: dict[str, Any], clients: int) -> None:
    """All clients ask at once, so all prompts are in one step, and all answers in each step."""
    profile = json.loads((ROOT / SIMULATOR_PROFILES).read_text())["profiles"][PROFILE]
    prefill_ms = profile["prefill_token_ms"] * INPUT_TOKENS * clients
    step_ms = profile["base_ms"] + profile["sequence_ms"] * clients
    seen = measured[str(clients)]["seen"]
    for share in ("p50", "p95", "p99"):
        assert seen["ttft_ms"][share] == pytest.approx(prefill_ms, rel=HARDLY)
        assert seen["tpot_ms"][share] == pytest.approx(step_ms, rel=HARDLY)


@pytest.mark.parametrize("case", [*map(str, CLIENTS), "faults"])
def test_requests_tokens_and_errors_are_counted_exactly(
    measured: dict[str, Any], case: str
) -> None:
    """The engine refuses every fourth request of the case with faults."""
    clients = 8 if case == "faults" else int(case)
    seen, told = measured[case]["seen"], measured[case]["told"]
    errors = {"HTTP 500": REQUESTS_OF_EACH * clients // 4} if case == "faults" else {}
    assert seen["errors"] == errors
    assert seen["requests"] == REQUESTS_OF_EACH * clients
    assert seen["answered"] == told["vllm:request_success_total"]
    assert seen["answered"] == seen["requests"] - sum(errors.values())
    assert seen["output_tokens"] * seen["answered"] == told["vllm:generation_tokens_total"]
    assert seen["input_tokens"] * seen["answered"] == told["vllm:prompt_tokens_total"]
    tokens_per_s = told["vllm:generation_tokens_total"] / seen["seconds"]
    assert seen["output_tokens_per_s"] == pytest.approx(tokens_per_s)
