"""A watched engine: what its liveness page says, and how the two processes end."""

from __future__ import annotations

import http.client
import json
import signal
from typing import Any

import psutil
import pytest
from engine_sim_process import SimProcess, WatchedSim
from hang import HANG_S
from simulator.text import answer
from test_lifecycle import start_stream, text_of

LONG_S = 3600  # longer than any test


def ended(process: psutil.Process) -> bool:
    """Waits until it has gone."""
    process.wait(HANG_S)
    return not process.is_running()


def test_with_nothing_to_do_it_moves() -> None:
    with WatchedSim() as replica:
        replica.wait_for(replica.live, 200)
        verdict = replica.verdict()
        assert (verdict["moving"], verdict["outstanding"]) == (True, 0)
        assert (verdict["limit_s"], verdict["stall_s"]) == (1, LONG_S)


def test_other_paths_of_the_page_do_not_exist() -> None:
    with WatchedSim() as replica:
        replica.wait_for(replica.live, 200)
        assert replica.call(replica.live + "/more")[0] == 404


def test_it_is_still_while_steps_are_and_its_streams_are_complete_once_they_go_on() -> None:
    with WatchedSim(engine_args={"faults": {"slow": 10}}) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        replica.set_faults(hang=True)
        replica.wait_for(replica.live, 503)
        verdict = replica.verdict()
        assert (verdict["moving"], verdict["part"], verdict["outstanding"]) == (False, "engine", 1)
        assert verdict["still_for_s"] >= verdict["limit_s"]
        replica.set_faults(slow=0)
        replica.wait_for(replica.live, 200)
        events = response.read()
        assert text_of(events) == answer("x").text(0, 1000)
        assert events.endswith(b"data: [DONE]\n\n")


def test_with_frozen_steps_and_nothing_to_do_it_moves() -> None:
    with WatchedSim(engine_args={"faults": {"hang": True}}) as replica:
        replica.wait_for(replica.live, 200)
        connection = start_stream(replica, 5)
        replica.wait_for(replica.live, 503)
        connection.close()
        replica.wait_for(replica.live, 200)


def test_a_stopped_engine_is_seen_and_goes_on() -> None:
    with WatchedSim(engine_args={"faults": {"slow": 10}}) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        engine = replica.engine
        engine.suspend()
        replica.wait_for(replica.live, 503)
        engine.resume()
        replica.wait_for(replica.live, 200)
        replica.set_faults(slow=0)
        assert text_of(response.read()) == answer("x").text(0, 1000)


def test_a_process_that_is_stopped_without_work_is_seen_and_goes_on() -> None:
    with WatchedSim() as replica:
        replica.wait_for(replica.live, 200)
        engine = replica.engine
        engine.suspend()
        replica.wait_for(replica.live, 503)
        assert replica.verdict()["part"] == "server"
        engine.resume()
        replica.wait_for(replica.live, 200)
        assert replica.call(replica.openai + "/v1/completions", {"prompt": "x"})[0] == 200


def test_a_process_that_stays_stopped_without_work_is_killed() -> None:
    with WatchedSim(stall_s=3) as replica:
        engine = replica.engine
        replica.wait_for(replica.live, 200)
        engine.suspend()
        assert replica.process.wait(HANG_S) == 1
        assert ended(engine)
        assert "the server stood still for" in replica.log()


def test_an_engine_that_stays_still_is_killed_and_its_connections_end() -> None:
    with WatchedSim(stall_s=1.5, engine_args={"faults": {"slow": 10}}) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        engine = replica.engine
        engine.suspend()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        assert replica.process.wait(HANG_S) == 1
        assert ended(engine)
        assert "the engine stood still for" in replica.log()
        assert "Traceback" not in replica.log()


def test_the_watcher_passes_on_sigterm_and_waits_for_the_drain() -> None:
    with WatchedSim(drain_timeout_s=LONG_S, engine_args={"faults": {"slow": 100}}) as replica:
        connection = start_stream(replica, 1000)
        response = connection.getresponse()
        replica.terminate()
        replica.wait_for_log("draining 1 requests")
        assert replica.call(replica.live)[0] == 200
        replica.set_faults(slow=0)
        assert text_of(response.read()) == answer("x").text(0, 1000)
        assert replica.process.wait(HANG_S) == 0


def test_a_second_sigterm_ends_both_at_once() -> None:
    with WatchedSim(drain_timeout_s=LONG_S) as replica:
        connection = start_stream(replica, 5, "hang=1")
        connection.getresponse()
        replica.terminate()
        replica.wait_for_log("draining 1 requests")
        replica.terminate()
        assert replica.process.wait(HANG_S) == -signal.SIGTERM


def test_a_killed_engine_ends_its_watcher_likewise() -> None:
    with WatchedSim() as replica:
        replica.engine.kill()
        assert replica.process.wait(HANG_S) == -signal.SIGKILL


def test_a_killed_watcher_ends_its_engine() -> None:
    with WatchedSim() as replica:
        engine = replica.engine
        replica.process.kill()
        replica.process.wait(HANG_S)
        assert ended(engine)


@pytest.mark.parametrize(
    ("engine", "code"),
    [({"max_num_seqs": 0}, 2), ({"engine_args": {"faults": {"no_start": True}}}, 1)],
)
def test_the_exit_code_is_the_engines(engine: dict[str, Any], code: int) -> None:
    with WatchedSim(wait_for="end", **engine) as replica:
        assert replica.process.returncode == code
        assert "Traceback" not in replica.log()


def test_without_a_time_limit_in_its_document_the_engine_runs_alone() -> None:
    replica = WatchedSim()
    for key in ("longest_step_s", "stall_s"):
        del replica._document[key]
    replica._document["schema_version"] = 3
    with replica:
        assert psutil.Process(replica.process.pid).children() == []
        with pytest.raises(OSError, match="refused"):
            replica.call(replica.live)


def test_no_byte_is_sent_before_the_first_token(replica: SimProcess) -> None:
    replica.set_faults(hang=True)
    connection = start_stream(replica, 5)
    replica.wait_for_sample(replica.openai, "vllm:num_requests_waiting", 1)
    connection.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        connection.sock.recv(1)
    connection.sock.settimeout(HANG_S)
    replica.clear_faults()
    response = connection.getresponse()
    assert (response.status, text_of(response.read())) == (200, answer("x").text(0, 5))


def test_an_error_before_the_first_token_is_a_status_of_a_stream() -> None:
    with WatchedSim() as replica:
        body = {"prompt": "x", "stream": True}
        status, text = replica.call(
            replica.openai + "/v1/completions", body, headers={"x-slipway-fault": "error"}
        )
        assert (status, json.loads(text)["error"]["code"]) == (500, 500)


def test_a_client_that_leaves_before_the_first_token_frees_the_engine(
    replica: SimProcess,
) -> None:
    replica.set_faults(hang=True)
    connection = start_stream(replica, 5)
    replica.wait_for_sample(replica.openai, "vllm:num_requests_waiting", 1)
    connection.close()
    replica.wait_for_sample(replica.openai, "vllm:num_requests_waiting", 0)
    replica.clear_faults()
