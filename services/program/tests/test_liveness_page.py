"""The liveness page over HTTP, and the processor time of real processes."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading

import pytest
from hang import HANG_S
from program.liveness.clock import waited_for_a_processor
from program.liveness.page import page
from program.liveness.watcher import Verdict

ADDRESS = "127.0.0.1"


def free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def test_one_connection_sees_each_verdict_as_it_is() -> None:
    verdict, port = Verdict(moving=True), free_port()
    with page(ADDRESS, port, lambda: verdict):
        connection = http.client.HTTPConnection(ADDRESS, port, timeout=HANG_S)
        assert get(connection, "/slipway/live")[0] == 200
        verdict = Verdict(moving=False, part="engine", outstanding=3, still_for_s=4.2, limit_s=1)
        status, body = get(connection, "/slipway/live")
        assert (status, body.count(b"\n")) == (503, 1)
        assert json.loads(body) == {
            "moving": False,
            "part": "engine",
            "outstanding": 3,
            "still_for_s": 4.2,
            "limit_s": 1,
            "stall_s": 0,
        }
        connection.close()


def test_no_other_path_exists_and_a_client_that_leaves_harms_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    with page(ADDRESS, port, lambda: Verdict(moving=True)):
        with socket.create_connection((ADDRESS, port)) as leaving:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection = http.client.HTTPConnection(ADDRESS, port, timeout=HANG_S)
        assert get(connection, "/")[0] == 404
        connection.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_taken_port_is_refused() -> None:
    with socket.create_server((ADDRESS, 0)) as listener:
        taken = page(ADDRESS, listener.getsockname()[1], lambda: Verdict(moving=True))
        with pytest.raises(OSError, match="in use"), taken:
            pass


def test_every_thread_of_a_process_has_waited_for_some_time() -> None:
    started, go = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        go.wait(HANG_S)

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(HANG_S)
    waited = waited_for_a_processor([os.getpid()])
    go.set()
    thread.join()
    assert {str(threading.main_thread().native_id), str(thread.native_id)} <= waited.keys()
    assert min(waited.values()) >= 0


def test_a_process_that_has_ended_has_no_threads() -> None:
    assert waited_for_a_processor([2**22 + 1]) == {}
