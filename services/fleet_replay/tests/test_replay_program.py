"""The program: from a document to a result, and its messages about wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent.parent / "replay.py"
LINE = '{"timestamp": %d, "input_length": 600, "output_length": 5}\n'


def document(trace: Path, **fleet: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "trace": {"path": str(trace)},
        "fleets": [
            {
                "name": "one",
                "profile": "h100-fp8-llama-3.1-8b",
                "engine": {
                    "max_model_len": 4096,
                    "max_num_seqs": 8,
                    "max_num_batched_tokens": 2048,
                    "kv_tokens": 65_536,
                },
                "replicas": {"min": 1, "max": 2},
                "scaling": {"target_inflight_per_replica": 4, "cooldown_s": 60},
                "max_concurrent_requests_per_replica": 64,
                **fleet,
            }
        ],
    }


def run(value: Any) -> subprocess.CompletedProcess[str]:
    text = value if isinstance(value, str) else json.dumps(value)
    return subprocess.run(
        [sys.executable, "-E", "-s", PROGRAM],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(LINE % (index * 100) for index in range(20)))
    return path


def test_a_trace_is_served(trace: Path) -> None:
    finished = run(document(trace))
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["trace"]["requests"] == 20
    (fleet,) = result["fleets"]
    assert fleet["completed"] == 20
    assert fleet["kv_block_tokens"] == 16
    # Alone in the engine: 600 tokens x 0.023907 ms.
    assert fleet["ttft_ms"]["p50"] == pytest.approx(14.34, abs=0.01)


def test_constants_of_the_callers_own_are_used(trace: Path) -> None:
    own = {
        "name": "mine",
        "source": "made up",
        "base_ms": 1,
        "prefill_token_ms": 0.1,
        "sequence_ms": 0,
        "context_token_ms": 0,
    }
    (fleet,) = json.loads(run(document(trace, profile=own)).stdout)["fleets"]
    assert fleet["ttft_ms"]["p50"] == pytest.approx(60)
    assert fleet["profile_source"] == "made up"


def test_long_prompts_take_larger_blocks(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 3000, "output_length": 5}\n')
    (fleet,) = json.loads(run(document(path)).stdout)["fleets"]
    assert fleet["kv_block_tokens"] == 64


def test_broken_lines_are_refused_with_file_line_and_count(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("{oops\n" + LINE % 3000 + "[]\n")
    finished = run(document(trace))
    assert finished.returncode == 2
    assert f"{trace}:21: not JSON" in finished.stderr
    assert f"{trace}:23: not a JSON object" in finished.stderr
    assert "2 of 23 lines are broken" in finished.stderr
    assert finished.stdout == ""


def test_broken_lines_are_left_out_when_asked_and_reported(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("{oops\n")
    skipping = document(trace)
    skipping["trace"]["skip_broken"] = True
    result = json.loads(run(skipping).stdout)
    assert result["trace"]["requests"] == 20
    assert [each["line"] for each in result["trace"]["skipped"]] == [21]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profile": "tpu"}, "fleets[0].profile: no profile 'tpu'"),
        ({"routing": "random"}, "fleets[0].routing: 'random'; use one of: least_request"),
        ({"replicas": {"min": 3, "max": 2}}, "fleets[0].replicas.min: 3 is greater than max (2)"),
        ({"startup_s": -1}, "fleets[0].startup_s: -1 must be a number >= 0"),
        (
            {
                "engine": {
                    "max_model_len": 4096,
                    "max_num_seqs": 8,
                    "max_num_batched_tokens": 2048,
                    "kv_tokens": 4000,
                }
            },
            "fleets[0].engine.kv_tokens: 4000 cannot hold a sequence of max_model_len (4096)",
        ),
    ],
)
def test_wrong_values_are_named(trace: Path, change: dict[str, Any], message: str) -> None:
    finished = run(document(trace, **change))
    assert finished.returncode == 2
    assert message in finished.stderr


def test_an_invalid_document_or_trace_is_named(trace: Path, tmp_path: Path) -> None:
    assert "not JSON" in run("{").stderr
    assert "schema_version: 2; this program reads 1" in run({"schema_version": 2}).stderr
    missing = tmp_path / "missing.jsonl"
    assert f"{missing}: No such file" in run(document(missing)).stderr
    trace.write_text("\n")
    assert "holds no request" in run(document(trace)).stderr
