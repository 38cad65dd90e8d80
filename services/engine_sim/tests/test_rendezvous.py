"""How members find each other, and who is refused."""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from engine_sim_process import SimProcess, free_address
from groups import MASTER_PORT, group, member
from hang import HANG_S
from simulator.document import BadInputError
from simulator.group.place import add_options, passed_on, read_place

FAST = {"time_scale": 0}
LONG_S = 3600


@pytest.fixture(scope="module")
def complete() -> Iterator[list[SimProcess]]:
    with group(SimProcess, 2, engine_args=FAST) as members:
        yield members


def answers(first: SimProcess) -> bool:
    body = {"prompt": "x", "max_tokens": 5}
    return first.call(first.openai + "/v1/completions", body)[0] == 200


def until_closed(connection: socket.socket) -> str:
    received = b""
    with contextlib.suppress(ConnectionResetError):  # it was closed with bytes unread
        while part := connection.recv(4096):
            received += part
    return received.decode()


@pytest.mark.parametrize(
    ("nodes", "settings", "reason"),
    [
        (2, {}, "rank 1 has joined from 127.93.0.{} already"),
        (2, {"model": "other"}, "it serves 'other', this group 'llama'"),
        (3, {}, "it belongs to a group of 3, this is one of 2"),
    ],
)
def test_a_member_that_does_not_belong_to_the_group_is_refused_and_the_group_goes_on(
    complete: list[SimProcess], nodes: int, settings: dict[str, Any], reason: str
) -> None:
    first, second = complete
    reason = reason.format(second.address.rpartition(".")[2])
    with member(SimProcess, 1, nodes, first.address, wait_for="end", **settings) as late:
        assert late.process.returncode == 1
        assert f"rank 1 is refused at {first.address}:9000: {reason}" in late.log()
        assert "Traceback" not in late.log()
    assert f"refused rank 1 from {late.address}: {reason}" in first.log()
    assert answers(first)


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        (b'{"model":"llama","nodes":2,"rank":2}\n', "others than rank 0 are rank 1 in this group"),
        (b'{"model":"llama","nodes":2,"rank":0}\n', "others than rank 0 are rank 1 in this group"),
        (b'{"model":"llama","nodes":2}\n', "others than rank 0 are rank 1 in this group"),
        (b'{"formation":"of before","from_rank":1}\n', None),
        (b"GET / HTTP/1.1\r\n\r\n", None),
        (b"[]\n", None),
        (b"x" * 100_000, None),
    ],
)
def test_who_does_not_speak_as_a_member_of_it_is_sent_away(
    complete: list[SimProcess], hello: bytes, answer: str | None
) -> None:
    first = complete[0]
    with socket.create_connection((first.address, MASTER_PORT), HANG_S) as connection:
        connection.sendall(hello)
        assert until_closed(connection) == (
            json.dumps({"refused": answer}) + "\n" if answer else ""
        )
    assert answers(first)
    assert "Traceback" not in first.log()


def test_the_same_rank_twice_is_refused_while_the_group_waits_for_another() -> None:
    master = free_address()
    with member(SimProcess, 0, 3, master) as first, member(SimProcess, 1, 3, master):
        first.wait_for_log("rank 1 of 3 has joined")
        with member(SimProcess, 1, 3, master, wait_for="end") as again:
            assert again.process.returncode == 1
        assert first.call(first.openai + "/health")[0] == 503
        with member(SimProcess, 2, 3, master):
            first.wait_for(first.openai + "/health", 200)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_member_alone_waits_says_for_whom_and_ends_on_sigterm(rank: int) -> None:
    master = free_address()
    with member(SimProcess, rank, 2, master, load_timeout_s=LONG_S) as alone:
        alone.wait_for_log(
            f"rank 1 of 2 waits for rank 0 at {master}:9000"
            if rank
            else f"rank 0 of 2 waits at {master}:9000 for the others"
        )
        if rank == 0:
            assert alone.call(alone.openai + "/health")[0] == 503
            status, text = alone.call(alone.openai + "/v1/completions", {"prompt": "x"})
            assert (status, "not ready" in text) == (503, True)
        alone.terminate()
        assert alone.process.wait(HANG_S) == 0
        assert "Traceback" not in alone.log()


@pytest.mark.parametrize(
    ("rank", "message"),
    [(0, "missing after 1 s at {}: ranks 1, 2"), (1, "no group with rank 0 at {} after 1 s")],
)
def test_a_member_alone_gives_up_when_the_time_to_load_is_over(rank: int, message: str) -> None:
    master = free_address()
    with member(SimProcess, rank, 3, master, wait_for="end", load_timeout_s=1) as alone:
        assert alone.process.returncode == 1
        assert message.format(f"{master}:9000") in alone.log()
        assert "Traceback" not in alone.log()


def test_members_may_end_and_start_again_before_the_group_is_complete() -> None:
    master = free_address()
    with contextlib.ExitStack() as stack:
        with member(SimProcess, 0, 3, master) as first, member(SimProcess, 1, 3, master) as second:
            first.wait_for_log("rank 1 of 3 has joined")
            second.process.kill()
            first.wait_for_log("rank 1 has gone before the group was complete")
            last = stack.enter_context(member(SimProcess, 2, 3, master))
            first.wait_for_log("rank 2 of 3 has joined")
        with member(SimProcess, 1, 3, master), member(SimProcess, 0, 3, master) as first:
            first.wait_for(first.openai + "/health", 200)
            assert answers(first)
        last.wait_for_log("is lost")


def test_a_master_address_of_another_machine_ends_rank_0_with_1() -> None:
    with member(SimProcess, 0, 2, "192.0.2.1", address=free_address(), wait_for="end") as first:
        assert first.process.returncode == 1
        assert "cannot listen at 192.0.2.1:9000" in first.log()
        assert "Traceback" not in first.log()


@pytest.mark.parametrize("rank", [0, 1])
def test_options_that_contradict_the_document_end_the_process_with_2(rank: int) -> None:
    with member(
        SimProcess, rank, 2, free_address(), wait_for="end", pipeline_parallel_size=3
    ) as wrong:
        assert wrong.process.returncode == 2
        assert "engine.pipeline_parallel_size: 3 and --nnodes 2 must be equal" in wrong.log()
        assert "Traceback" not in wrong.log()


def options(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(text.split())


@pytest.mark.parametrize(
    ("text", "stages", "message"),
    [
        ("", 2, "engine.pipeline_parallel_size: 2 and --nnodes 1 must be equal"),
        ("--nnodes 2", 1, "engine.pipeline_parallel_size: 1 and --nnodes 2 must be equal"),
        ("--nnodes 2", 2, "--node-rank is missing"),
        ("--nnodes 2 --node-rank 0", 2, "--master-addr is missing"),
        ("--nnodes 2 --node-rank 0 --master-addr 127.0.0.2", 2, "--master-port is missing"),
        ("--nnodes 2 --node-rank 2", 2, "--node-rank 2: a group of 2 has ranks 0 to 1"),
        ("--nnodes 2 --node-rank -1", 2, "--node-rank -1: a group of 2 has ranks 0 to 1"),
        ("--node-rank 1", 1, "--node-rank 1: a group of 1 has ranks 0 to 0"),
        (
            "--nnodes 2 --node-rank 0 --master-addr 127.0.0.2 --master-port 70000",
            2,
            "--master-port 70000: must be a port",
        ),
    ],
)
def test_options_that_name_no_place_are_refused(text: str, stages: int, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_place(options(text), {}, stages)


def test_without_options_or_with_one_node_there_is_no_group() -> None:
    assert read_place(options(""), {}, 1) is None
    assert read_place(options("--nnodes 1 --node-rank 0"), {}, 1) is None


def test_the_watcher_passes_on_the_options_it_was_given() -> None:
    text = "--nnodes 2 --node-rank 1 --master-addr 127.0.0.2 --master-port 9000"
    assert passed_on(options(text)) == text.split()
    assert passed_on(options("")) == []
