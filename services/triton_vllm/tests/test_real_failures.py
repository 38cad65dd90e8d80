"""Kills parts of the real engine. Each test loads it: a quarter of a minute on two cores."""

from __future__ import annotations

import os
import signal
import time

import pytest
from real_replica import real_replica
from replica_process import REPLICA_HANG_S, ReplicaProcess, shared_memory_names, wait_until

pytestmark = [pytest.mark.real, pytest.mark.kills]


@pytest.mark.parametrize("part", ["VLLM::EngineCore", "fork_server", "api_server", "launcher"])
def test_killing_a_part_of_the_real_engine_leaves_nothing(part: str) -> None:
    with real_replica() as replica:
        assert "VLLM::Worker" not in " ".join(replica.parts())
        _kill(replica, part)


@pytest.mark.parametrize("part", ["VLLM::EngineCore", "VLLM::Worker", "launcher"])
def test_killing_a_part_of_an_engine_with_workers_leaves_nothing(part: str) -> None:
    """Like a model's on several devices; the processes communicate through shared memory."""
    with real_replica(distributed_executor_backend="mp") as replica:
        assert any(name.startswith("psm_") for name in replica.shared_memory())
        _kill(replica, part)


def _kill(replica: ReplicaProcess, part: str) -> None:
    made = replica.shared_memory()
    pid = replica.process.pid
    if part != "launcher":
        pid = next(p for name, p in replica.parts().items() if part in name)
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    replica.process.wait(REPLICA_HANG_S)
    wait_until(replica.is_gone)
    print(f"{part}: everything gone {time.monotonic() - killed_at:.2f} s after SIGKILL")
    assert replica.process.returncode == (-9 if part == "launcher" else 1)
    assert not made & shared_memory_names()
