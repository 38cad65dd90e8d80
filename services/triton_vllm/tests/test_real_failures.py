"""Kills and drain of the real engine. Each test loads it: about a minute on two cores."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest
from real_replica import prepared_runtime, real_replica
from replica_process import ALIAS, GRPC_PORT, OPENAI_PORT, shared_memory_names, wait_until
from triton_stream import Answer, TritonStream, sampling

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.mark.kills
@pytest.mark.parametrize("part", ["VLLM::EngineCore", "VLLM::Worker", "api_server", "launcher"])
def test_killing_a_part_of_the_real_engine_leaves_nothing(short_folder: Path, part: str) -> None:
    replica = real_replica(short_folder, prepared_runtime()).start().wait_for("ready", 600)
    made = replica.shared_memory()
    assert any(name.startswith("psm_") for name in made)
    assert any(name.startswith("sem.mp-") for name in made)
    pid = replica.process.pid
    if part != "launcher":
        pid = next(p for name, p in replica.parts().items() if part in name)
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    replica.process.wait(30)
    wait_until(replica.is_gone, 30)
    print(f"{part}: everything gone {time.monotonic() - killed_at:.2f} s after SIGKILL")
    assert replica.process.returncode == (-9 if part == "launcher" else 1)
    assert not made & shared_memory_names()


def test_sigterm_lets_both_doors_finish_their_streams(short_folder: Path) -> None:
    replica = real_replica(short_folder, prepared_runtime()).start().wait_for("ready", 600)
    made = replica.shared_memory()
    body = {"model": ALIAS, "prompt": "Once", "max_tokens": 60, "stream": True}
    request = urllib.request.Request(
        f"http://{replica.address}:{OPENAI_PORT}/v1/completions",
        json.dumps({**body, "ignore_eos": True}).encode(),
        {"content-type": "application/json"},
    )
    parameters = sampling(max_tokens=60, ignore_eos=True)
    with (
        TritonStream(f"{replica.address}:{GRPC_PORT}") as stream,
        urllib.request.urlopen(request, timeout=120) as events,
    ):
        stream.send("Once", stream=True, sampling_parameters=parameters)
        answer = Answer()
        stream.receive(answer)
        events.readline()
        replica.process.terminate()
        while stream.receive(answer, 120):
            pass
        assert events.read().endswith(b"data: [DONE]\n\n")
    assert answer.error is None
    assert len(answer.responses) == 60
    assert replica.process.wait(60) == 0
    assert not made & shared_memory_names()
    print(*replica.events()[-4:], sep="\n")
