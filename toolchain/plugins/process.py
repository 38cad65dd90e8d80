"""A Pulumi plugin process: a gRPC server that prints its port and ends promptly."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc  # type: ignore[import-untyped]

from toolchain.forks.client import STANDARD_INPUT, ends_with_its_peer

# Pulumi's own limit for a message: jobspecs and states exceed gRPC's 4 MiB.
MAX_MESSAGE_BYTES = 400 * 1024 * 1024
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),  # the engine is always on this machine
)
# A slow call (a command) occupies a thread, and the engine runs resources in parallel.
MAX_PARALLEL_CALLS = 128
# Time for interrupted calls to end what they started; the engine kills after 5 s.
END_GRACE_S = 4.0


def engine_channel(address: str) -> grpc.Channel:
    """A channel to the engine at `address` (host:port). It connects on first use."""
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


def serve(register: Callable[[grpc.Server], None], stop: Callable[[], None]) -> None:
    """Serve until the engine interrupts this process or dies, then call `stop` and exit with 0.

    Args:
        register: adds the servicer to the server.
        stop: interrupts the calls in progress; called once, does not block.
    """
    # A pipe instead of threading.Event: a handler that interrupts Event.wait may deadlock in
    # Event.set.
    wait_end, notify_end = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(notify_end, b"."))
    server = grpc.server(
        ThreadPoolExecutor(max_workers=MAX_PARALLEL_CALLS), options=CHANNEL_OPTIONS
    )
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _watch_standard_input(notify_end)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    os.read(wait_end, 1)
    stop()
    server.stop(grace=END_GRACE_S).wait()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a call that did not end in time keeps its thread


def _watch_standard_input(notify_end: int) -> None:
    """The engine or forks/client.py's client holds the other end, so end of file means it is
    gone."""
    if not ends_with_its_peer(STANDARD_INPUT):
        return

    def wait_for_end() -> None:
        while os.read(STANDARD_INPUT, 4096):
            pass
        os.write(notify_end, b".")

    threading.Thread(target=wait_for_end, daemon=True).start()
