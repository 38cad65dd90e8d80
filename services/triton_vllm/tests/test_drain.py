"""SIGTERM: what is in flight completes, then everything ends."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

from hang import HANG_S
from replica_process import (
    GRPC_PORT,
    MODEL,
    OPENAI_PORT,
    REPLICA_HANG_S,
    ReplicaProcess,
    hold_engine,
    shared_memory_names,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling

NewReplica = Callable[..., ReplicaProcess]


def test_an_idle_replica_drains_and_leaves_nothing(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    before = replica.shared_memory()
    assert replica.stop() == 0
    assert replica.phases()[-3:] == ["draining", "drained", "stopped"]
    assert replica.is_gone()
    assert not before & shared_memory_names()


def test_streams_in_flight_over_grpc_complete(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=75))
        answer = Answer()
        stream.receive(answer)
        drain(replica)
        replica.release()
        while stream.receive(answer):
            pass
        assert answer.error is None
        assert answer.text == " hold" * 75
    assert replica.process.wait(REPLICA_HANG_S) == 0


def test_streams_in_flight_over_http_complete(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    body = {"model": MODEL, "prompt": "hold", "max_tokens": 75, "stream": True}
    request = urllib.request.Request(
        f"http://{replica.address}:{OPENAI_PORT}/v1/completions", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=HANG_S) as reply:
        reply.readline()
        drain(replica)
        replica.release()
        assert reply.read().endswith(b"data: [DONE]\n\n")
    assert replica.process.wait(REPLICA_HANG_S) == 0


def test_new_requests_are_answered_until_the_drain_ends(new_replica: NewReplica) -> None:
    replica = new_replica().start().wait_for("ready")
    url = f"{replica.address}:{GRPC_PORT}"
    with TritonStream(url) as early, TritonStream(url) as late:
        early.send("hold", stream=True, sampling_parameters=sampling(max_tokens=75))
        early.receive(Answer())
        drain(replica)
        answer = late.ask("b", stream=True, sampling_parameters=sampling(max_tokens=3))
        replica.release()
    assert answer.text == " b b b"
    assert replica.process.wait(REPLICA_HANG_S) == 0


def test_a_drain_is_bounded(new_replica: NewReplica) -> None:
    replica = new_replica(drain_timeout_s=1).start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=75))
        stream.receive(Answer())
        assert replica.stop() == 0
    assert any("drain_timeout_s" in event.get("message", "") for event in replica.events())
    assert replica.is_gone()


def drain(replica: ReplicaProcess) -> None:
    replica.process.terminate()
    wait_until(lambda: "draining" in replica.phases())


def test_a_stop_while_loading_needs_no_drain(new_replica: NewReplica) -> None:
    replica = new_replica()
    hold_engine(replica)
    replica.start().wait_for("engine_starting")
    assert replica.stop() == 0
    assert "draining" not in replica.phases()
    assert replica.is_gone()
