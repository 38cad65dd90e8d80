"""Rows of bench/service_times.py: a replica with the real Triton and a fake engine."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from replica_process import GRPC_PORT, METRICS_PORT, OPENAI_PORT, ReplicaProcess
from row import row
from test_streaming import in_flight
from triton_stream import Answer, TritonStream, sampling

STREAMS, TOKENS = 24, 20  # 0.02 s each: one after the other they take 9.6 s


def many_streams(url: str) -> None:
    with ExitStack() as opened:
        streams = [opened.enter_context(TritonStream(url)) for _ in range(STREAMS)]
        began_s = time.monotonic()
        for stream in streams:
            stream.send("a", stream=True, sampling_parameters=sampling(max_tokens=TOKENS))
        for stream in streams:
            answer = Answer()
            while stream.receive(answer):
                pass
        taken_s = time.monotonic() - began_s
    row(f"{STREAMS} streams of {TOKENS} tokens at once", taken_s, bar_s=6)


def cancelled(replica: ReplicaProcess, url: str, *, streamed: bool) -> None:
    with TritonStream(url) as stream:
        stream.send("hold", stream=streamed, sampling_parameters=sampling(max_tokens=TOKENS))
        until(lambda: in_flight(replica, OPENAI_PORT) == 1)
        began_s = time.monotonic()
        stream.client.stop_stream(cancel_requests=True)
        until(lambda: in_flight(replica, OPENAI_PORT) == 0)
        left_s = time.monotonic() - began_s
        until(lambda: in_flight(replica, METRICS_PORT) == 0)
    kind = "stream" if streamed else "whole answer"
    row(f"a cancelled {kind} leaves the engine", left_s, bar_s=0.5)
    row(f"a cancelled {kind} leaves Triton's count", time.monotonic() - began_s, bar_s=0.5)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="slw-"))
    replica = ReplicaProcess(folder, "127.92.0.11")
    try:
        replica.start().wait_for("ready")
        url = f"{replica.address}:{GRPC_PORT}"
        many_streams(url)
        for streamed in (True, False):
            cancelled(replica, url, streamed=streamed)
        began_s = time.monotonic()
        replica.stop()
        row("an idle replica, from SIGTERM to its end", time.monotonic() - began_s, bar_s=8)
    finally:
        replica.end()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
