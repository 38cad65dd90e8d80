"""replica.json and the environment: mistakes are reported with their place."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_sim_process import SimProcess, document
from hang import HANG_S
from simulator.document import BadInputError, Liveness, read_listeners, read_replica
from simulator.faults import BadFaultError, Faults, parse_json, parse_text

ENTRYPOINT = Path(__file__).parent.parent / "engine_sim.py"
BEFORE = Path(__file__).parent / "documents_of_before"


def write(folder: Path, value: object) -> Path:
    path = folder / "replica.json"
    path.write_text(json.dumps(value), "utf-8")
    return path


def test_a_document_is_read_with_its_defaults(tmp_path: Path) -> None:
    replica = read_replica(write(tmp_path, document()))
    assert replica.names == ("llama", "small")
    assert replica.drain_timeout_s == 20
    assert replica.engine.max_num_batched_tokens == 2048
    assert replica.engine.faults == Faults()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_num_seqs": 0}, "engine.max_num_seqs: 0 must be an integer >= 1"),
        ({"kind": "vllm"}, "engine.kind: 'vllm'; this program runs 'sim'"),
        ({"profile": None}, "engine.profile: is missing"),
        ({"engine_args": {"colour": 1}}, "engine.engine_args.colour: unknown"),
        ({"engine_args": {"faults": {"slow": -1}}}, "engine.engine_args.faults: slow=-1"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        read_replica(write(tmp_path, document(**change)))


def test_a_document_of_the_previous_version_is_read_as_it_was_meant(tmp_path: Path) -> None:
    path = BEFORE / "replica.json"
    content = json.loads(path.read_text("utf-8"))
    assert content["schema_version"] == 3
    replica = read_replica(path)
    assert (replica.names, replica.drain_timeout_s) == (("sim",), 600)
    for name in ("architecture", "profile", "max_model_len", "max_num_seqs", "kv_cache_bytes"):
        assert getattr(replica.engine, name) == content["engine"][name]
    assert replica.liveness is None
    now = {**content, "schema_version": 4, "longest_step_s": 0.02, "stall_s": 10}
    limits = Liveness(longest_step_s=0.02, stall_s=10)
    assert dataclasses.replace(replica, liveness=limits) == read_replica(write(tmp_path, now))


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="schema_version: 5"):
        read_replica(write(tmp_path, {**document(), "schema_version": 5}))


@pytest.mark.parametrize("missing", ["longest_step_s", "stall_s"])
def test_a_document_of_this_version_says_how_the_engine_is_judged(
    tmp_path: Path, missing: str
) -> None:
    whole = {**document(), "schema_version": 4, "longest_step_s": 0.02, "stall_s": 10}
    del whole[missing]
    with pytest.raises(BadInputError, match=f"{missing}: is missing"):
        read_replica(write(tmp_path, whole))


def test_an_invalid_port_is_refused() -> None:
    environment = {**SimProcess().environment(), "SLIPWAY_PORT_GRPC": "70000"}
    with pytest.raises(BadInputError, match="SLIPWAY_PORT_GRPC='70000'"):
        read_listeners(environment)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profile": "tpu"}, "no profile 'tpu-llama-3.1-8b'"),
        ({"kv_cache_bytes": 1 << 20}, "engine.kv_cache_bytes: 1048576 holds 0 tokens"),
    ],
)
def test_wrong_input_ends_the_process_with_2_and_no_traceback(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    ended = subprocess.run(
        [sys.executable, ENTRYPOINT, "--document", write(tmp_path, document(**change))],
        env={**os.environ, **SimProcess().environment()},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_faults_are_read_from_text_and_from_json() -> None:
    assert parse_text("slow=2.5, die=3") == Faults(slow=2.5, die=3)
    assert parse_text("hang,error") == Faults(hang=0, error=1.0)
    assert parse_json({"error": 0.25, "kv_full": True}) == Faults(error=0.25, kv_full=True)


@pytest.mark.parametrize("text", ["explode", "slow", "die=soon", "error=2", "kv_full"])
def test_an_invalid_fault_is_refused(text: str) -> None:
    with pytest.raises(BadFaultError):
        parse_text(text)
