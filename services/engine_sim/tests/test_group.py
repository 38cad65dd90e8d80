"""A replica of several members: its answers, its steps, and what happens when a member is gone."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest
import tritonclient.grpc.aio as triton  # type: ignore[import-untyped]
from engine_sim_process import SimProcess, WatchedSim
from groups import group
from hang import HANG_S
from simulator.group.connection import Connection
from simulator.group.ring import Ring
from simulator.text import answer
from test_lifecycle import start_stream, text_of
from test_triton_protocols import answers, request, text

FAST = {"time_scale": 0}
SLOW = {"faults": {"slow": 10}}  # a step takes 0.05 s
Group = list[SimProcess]


@pytest.fixture(scope="module", params=[2, 3])
def members(request: pytest.FixtureRequest) -> Iterator[Group]:
    with group(SimProcess, request.param, engine_args=FAST) as members:
        yield members


def test_it_answers_over_http_as_a_replica_of_one(members: Group, replica: SimProcess) -> None:
    body = {"prompt": "one group", "max_tokens": 40, "seed": 1}
    answered = [each.call(each.openai + "/v1/completions", body) for each in (members[0], replica)]
    texts = [(status, text.partition('"choices"')[2]) for status, text in answered]
    assert texts[0] == texts[1]
    assert answer("one group").text(0, 40) in texts[0][1]


async def test_it_answers_over_grpc_as_a_replica_of_one(
    members: Group, replica: SimProcess
) -> None:
    async def answered(by: SimProcess) -> str:
        async with triton.InferenceServerClient(by.grpc) as client:
            wanted = request("one group", stream=True, sampling={"max_tokens": 40})
            pairs = await answers(client, wanted)
        assert [error for _, error in pairs if error] == []
        return text([result for result, _ in pairs])

    assert await answered(members[0]) == await answered(replica) == answer("one group").text(0, 40)


def test_only_rank_0_listens_for_clients(members: Group) -> None:
    for rank, each in enumerate(members):
        ports = {
            connection.laddr.port
            for connection in psutil.Process(each.process.pid).net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert ports == ({8000, 8001, 8002, 8003, 9000} if rank == 0 else set())


def test_members_are_joined_in_a_ring_from_their_own_addresses(members: Group) -> None:
    addresses = [each.address for each in members]
    for each, before, after in zip(
        members, addresses[-1:] + addresses[:-1], addresses[1:] + addresses[:1], strict=True
    ):
        joined = [
            (connection.laddr.ip, connection.raddr.ip)
            for connection in psutil.Process(each.process.pid).net_connections()
            if connection.status == psutil.CONN_ESTABLISHED
            and connection.raddr.ip in addresses
            and connection.laddr.ip != connection.raddr.ip  # a client has the address it calls
        ]
        assert sorted(joined) == sorted([(each.address, before), (each.address, after)])


@pytest.mark.parametrize("nodes", [2, 3])
def test_every_step_is_one_message_to_every_member_and_each_ends_on_sigterm(nodes: int) -> None:
    with group(SimProcess, nodes, engine_args=FAST) as members:
        first, *others = members
        body = {"prompt": "x", "max_tokens": 5}
        assert first.call(first.openai + "/v1/completions", body)[0] == 200
        for each in members:
            each.terminate()
            assert each.process.wait(HANG_S) == 0
        assert "5 steps have passed all ranks" in first.log()
        for rank, each in enumerate(others, 1):
            assert f"rank {rank} has passed on 5 steps" in each.log()
        assert not any("Traceback" in each.log() for each in members)


def rest_of(connection: socket.socket) -> bytes:
    """What has come so far of a stream that is open. Fails if the stream has ended."""
    connection.setblocking(False)
    received = b""
    while True:
        try:
            part = connection.recv(1 << 16)
        except BlockingIOError:
            return received
        assert part, "the stream has ended"
        received += part


@pytest.mark.parametrize(("nodes", "victim"), [(2, 1), (3, 1), (3, 2)])
def test_with_a_member_killed_a_stream_is_silent_and_only_the_liveness_page_says_so(
    nodes: int, victim: int
) -> None:
    with group(WatchedSim, nodes, engine_args=SLOW) as members:
        first = members[0]
        connection = start_stream(first, 1000)
        connection.getresponse()
        members[victim].engine.kill()
        first.wait_for(first.live, 503)
        verdict = first.verdict()
        assert (verdict["part"], verdict["outstanding"]) == ("engine", 1)
        assert first.call(first.openai + "/health")[0] == 200
        assert first.call(first.http + "/v2/health/ready")[0] == 200
        assert b"[DONE]" not in rest_of(connection.sock)
        assert not any("ERROR" in each.log() or "Traceback" in each.log() for each in members)


def test_a_step_that_never_ends_is_outstanding_also_without_its_client() -> None:
    with group(WatchedSim, 2, engine_args=SLOW) as (first, second):
        connection = start_stream(first, 1000)
        response = connection.getresponse()
        second.engine.kill()
        first.wait_for(first.live, 503)
        response.close()
        connection.close()
        first.wait_for_sample(first.openai, "vllm:num_requests_running", 0)
        verdict = first.verdict()
        looked_s = verdict["still_for_s"] + 1  # several looks of the watcher later
        while not verdict["moving"] and verdict["still_for_s"] < looked_s:
            verdict = first.verdict()
        assert (verdict["moving"], verdict["outstanding"]) == (False, 1)


def test_with_a_member_stopped_a_stream_waits_and_then_goes_on_to_its_end() -> None:
    with group(WatchedSim, 2, engine_args=SLOW) as (first, second):
        response = start_stream(first, 1000).getresponse()
        engine = second.engine
        engine.suspend()
        first.wait_for(first.live, 503)
        second.wait_for(second.live, 503)
        assert second.verdict()["part"] == "server"
        engine.resume()
        first.set_faults(slow=0)
        assert text_of(response.read()) == answer("x").text(0, 1000)
        second.wait_for(second.live, 200)


def test_a_rank_above_0_has_a_liveness_page_that_tells_of_no_outstanding_steps() -> None:
    with group(WatchedSim, 2, engine_args=SLOW) as (first, second):
        connection = start_stream(first, 1000)
        connection.getresponse()
        second.wait_for(second.live, 200)
        assert second.verdict()["outstanding"] == 0
        second.terminate()
        assert second.process.wait(HANG_S) == 0


def test_a_rank_above_0_outlives_rank_0_and_ends_on_sigterm() -> None:
    with group(SimProcess, 2) as (first, second):
        first.process.kill()
        second.wait_for_log("the connection from the rank before this one is lost")
        second.terminate()
        assert second.process.wait(HANG_S) == 0
        assert "ERROR" not in second.log()


def test_a_killed_watcher_ends_its_rank_above_0() -> None:
    with group(WatchedSim, 2) as (_, second):
        engine = second.engine
        second.process.kill()
        engine.wait(HANG_S)
        assert not engine.is_running()


@pytest.fixture
async def server() -> AsyncIterator[socket.socket]:
    with socket.create_server(("127.93.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("linger_s", [None, 0])
async def test_neither_the_end_nor_the_reset_of_a_connection_is_an_error(
    server: socket.socket, linger_s: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """With SO_LINGER at 0, closing a socket sends RST."""
    connection = Connection(*await asyncio.open_connection(*server.getsockname()))
    peer, _ = server.accept()
    waiting = asyncio.create_task(Ring(connection, connection).receive())
    if linger_s is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger_s))
    peer.close()
    while "is lost" not in caplog.text:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    waiting.cancel()
