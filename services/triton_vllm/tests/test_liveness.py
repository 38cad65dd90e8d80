"""Parts that stand still: the launcher's liveness page, and the end of a replica that stays so."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hang import HANG_S
from replica_process import (
    GRPC_PORT,
    LIVENESS_PORT,
    MODEL,
    OPENAI_PORT,
    REPLICA_HANG_S,
    ReplicaProcess,
    hold_engine,
    wait_until,
)
from triton_stream import Answer, TritonStream, sampling

NewReplica = Callable[..., ReplicaProcess]
FROZEN = [("api_server", "API server"), ("tritonserver", "Triton server"), ("stub", "Triton stub")]


def live(replica: ReplicaProcess) -> tuple[int, dict[str, object]]:
    """The status of the page, and what it says."""
    url = f"http://{replica.address}:{LIVENESS_PORT}/slipway/live"
    try:
        with urllib.request.urlopen(url, timeout=HANG_S) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def moves(replica: ReplicaProcess) -> bool:
    return live(replica)[0] == 200


def stands_still(replica: ReplicaProcess) -> bool:
    return live(replica)[0] == 503


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_replica_that_loads_does_not_move_and_one_without_work_does(
    new_replica: NewReplica,
) -> None:
    replica = new_replica()
    go = hold_engine(replica)
    replica.start().wait_for("engine_starting")
    status, said = live(replica)
    assert (status, said["moving"], said["part"]) == (503, False, "API server")
    go.touch()
    replica.wait_for("ready")
    wait_until(lambda: live(replica)[1]["part"] == "engine")
    assert live(replica) == (
        200,
        {
            "moving": True,
            "part": "engine",
            "outstanding": 0,
            "still_for_s": 0,
            "limit_s": 1,
            "stall_s": 3600,
        },
    )
    assert replica.stop() == 0


def test_steps_that_stand_still_are_seen_and_their_streams_complete(
    new_replica: NewReplica,
) -> None:
    replica = new_replica().start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("hold", stream=True, sampling_parameters=sampling(max_tokens=75))
        answer = Answer()
        stream.receive(answer)
        wait_until(lambda: stands_still(replica))
        _, verdict = live(replica)
        assert (verdict["part"], verdict["outstanding"]) == ("engine", 1)
        replica.release()
        while stream.receive(answer):
            pass
    assert answer.text == " hold" * 75
    wait_until(lambda: moves(replica))
    assert replica.stop() == 0


@pytest.mark.parametrize(("part", "name"), FROZEN)
def test_a_part_without_work_that_is_stopped_is_seen_and_goes_on(
    new_replica: NewReplica, part: str, name: str
) -> None:
    replica = new_replica().start().wait_for("ready")
    with stopped(replica.parts()[part]):
        wait_until(lambda: stands_still(replica))
        assert live(replica)[1]["part"] == name
    wait_until(lambda: moves(replica))
    assert replica.stop() == 0


def test_an_api_server_that_is_stopped_with_work_is_seen_by_its_steps(
    new_replica: NewReplica,
) -> None:
    replica = new_replica().start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("x", stream=True, sampling_parameters=sampling(max_tokens=500))
        answer = Answer()
        stream.receive(answer)
        with stopped(replica.parts()["api_server"]):
            wait_until(lambda: stands_still(replica))
            assert live(replica)[1]["part"] == "engine"
        while stream.receive(answer):
            pass
    assert answer.text == " x" * 500
    assert replica.stop() == 0


@pytest.mark.parametrize("part", ["api_server", "stub"])
def test_a_part_that_stays_still_ends_the_replica_and_leaves_nothing(
    new_replica: NewReplica, part: str
) -> None:
    replica = new_replica(stall_s=4).start().wait_for("ready")
    os.kill(replica.parts()[part], signal.SIGSTOP)
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert replica.is_gone()
    assert "stood still for" in replica.events()[-1]["message"]


def test_connections_to_an_engine_that_stays_still_end(new_replica: NewReplica) -> None:
    replica = new_replica(stall_s=2).start().wait_for("ready")
    body = {"model": MODEL, "prompt": "hold", "max_tokens": 75, "stream": True}
    request = urllib.request.Request(
        f"http://{replica.address}:{OPENAI_PORT}/v1/completions", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=HANG_S) as reply:
        assert b" hold" in reply.readline()
        assert b"[DONE]" not in read_to_the_end(reply)
    assert replica.process.wait(REPLICA_HANG_S) == 1
    assert "the engine stood still for" in replica.events()[-1]["message"]


def read_to_the_end(reply: object) -> bytes:
    """What comes before the connection ends, in whatever way."""
    received = b""
    try:
        while piece := reply.readline():  # type: ignore[attr-defined]
            received += piece
    except OSError:
        pass
    return received


def test_a_pause_of_the_whole_replica_is_no_stillness(new_replica: NewReplica) -> None:
    replica = new_replica(stall_s=2).start().wait_for("ready")
    with TritonStream(f"{replica.address}:{GRPC_PORT}") as stream:
        stream.send("x", stream=True, sampling_parameters=sampling(max_tokens=500))
        answer = Answer()
        stream.receive(answer)
        pids = [replica.process.pid, *replica.parts().values()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(5)  # the pause itself
        for pid in pids:  # the launcher looks before the others go on
            os.kill(pid, signal.SIGCONT)
        while stream.receive(answer):
            pass
    assert answer.text == " x" * 500
    assert replica.stop() == 0
