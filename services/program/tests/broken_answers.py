"""A server that hangs up in the middle of what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from hangs import HANG_S


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that says the given bytes to one client and hangs up; its URL."""
    threads: list[threading.Thread] = []

    def serve(listening: socket.socket, answer: bytes) -> None:
        with listening, listening.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(answer)

    def start(answer: bytes) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        threads.append(threading.Thread(target=serve, args=(listening, answer)))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(timeout=HANG_S)
