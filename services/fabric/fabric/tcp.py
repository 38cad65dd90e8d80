"""Bandwidth and round trips between two hosts over TCP, from one address to another.

Round trips are measured first, on the idle link; then some streams send for a while, and then the
other side does, as the two directions of a link may differ. The rate is what has arrived, over the
time until the last of it is confirmed or read, so what still waits in a buffer does not count.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from program.errors import HostError

from fabric.readings.tcp import TcpFigures

STREAMS = 4  # one stream may be limited by one processor
SEND_S = 3.0
ROUND_TRIPS = 500
ROUND_TRIPS_S = 1.0
PATIENCE_S = 10.0  # for what is on its way when the sending ends

_SINK, _ECHO, _SOURCE = b"S", b"E", b"R"
_MESSAGE = bytes(64)
_CHUNK = bytes(256 * 1024)
_COUNT = struct.Struct("!Q")
_TOTAL_RETRANS = struct.Struct("=100xI")  # tcpi_total_retrans in struct tcp_info of linux/tcp.h
_TCP_INFO_BYTES = 104

Address = tuple[str, int]
Result = TypeVar("Result")


class Listener:
    """Receives and echoes for one peer; who connects from another address is sent away."""

    def __init__(self, address: str, port: int, peer: str) -> None:
        """Raises HostError if the address is not this host's, or the port taken."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._server = socket.create_server((address, port), family=family, backlog=64)
        except OSError as error:
            raise HostError(f"cannot listen on {address} port {port}: {error}") from None
        self._peer = peer

    @property
    def port(self) -> int:
        port: int = self._server.getsockname()[1]
        return port

    def serve(self, seconds: float, quiet_s: float | None = None) -> None:
        """Answers for `seconds`, or until the peer, once it has come, opens nothing more for
        `quiet_s`; what it has opened is answered to its end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._server.settimeout(left)
            try:
                connection, (host, *_) = self._server.accept()
            except TimeoutError:
                break
            if host != self._peer:
                connection.close()
                continue
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()
            if quiet_s is not None:
                end = min(end, time.monotonic() + quiet_s)
        self._server.close()


def measure(source: str, target: Address, *, seconds: float = SEND_S) -> TcpFigures:
    """From the address `source` of this host. Raises HostError if the other side cannot be reached
    or does not confirm everything."""
    try:
        trips = _round_trips(source, target)
        start = time.monotonic()
        sent = _at_once(_sender(source, target, start + seconds))
        taken = time.monotonic() - start
        start = time.monotonic()
        received = sum(_at_once(lambda: _received(source, target)))
        receiving = time.monotonic() - start
    except OSError as error:
        raise HostError(
            f"from {source} to {target[0]} port {target[1]}: {error}\n"
            "fix: let tcp_check.py listen there for this address, and open the port"
        ) from None
    resent = [count for _, count in sent if count is not None]
    return TcpFigures(
        streams=STREAMS,
        seconds=round(taken, 3),
        gbit_per_s=sum(count for count, _ in sent) * 8 / taken / 1e9,
        received_gbit_per_s=received * 8 / receiving / 1e9,
        round_trip_median_us=statistics.median(trips),
        round_trip_p99_us=statistics.quantiles(trips, n=100)[98],
        retransmits=sum(resent) if len(resent) == STREAMS else None,
    )


def _round_trips(source: str, target: Address) -> list[float]:
    """In microseconds; the first one, which also wakes the other side, is left out."""
    trips: list[float] = []
    with _connect(source, target) as connection:
        connection.sendall(_ECHO)
        end = time.monotonic() + ROUND_TRIPS_S
        while len(trips) < 3 or (len(trips) <= ROUND_TRIPS and time.monotonic() < end):
            begun = time.perf_counter()
            connection.sendall(_MESSAGE)
            _receive(connection, len(_MESSAGE))
            trips.append((time.perf_counter() - begun) * 1e6)
    return trips[1:]


def _sender(source: str, target: Address, end: float) -> Callable[[], tuple[int, int | None]]:
    def send() -> tuple[int, int | None]:
        """Bytes that the other side confirmed, and segments sent again."""
        with _connect(source, target) as connection:
            connection.sendall(_SINK)
            sent = 0
            while time.monotonic() < end:
                sent += connection.send(_CHUNK)
            connection.shutdown(socket.SHUT_WR)
            (confirmed,) = _COUNT.unpack(_receive(connection, _COUNT.size))
            if confirmed != sent:
                raise OSError(f"{sent} bytes were sent and {confirmed} received")
            return confirmed, _retransmits(connection)

    return send


def _at_once(stream: Callable[[], Result]) -> list[Result]:
    with ThreadPoolExecutor(STREAMS) as streams:
        return [each.result() for each in [streams.submit(stream) for _ in range(STREAMS)]]


def _received(source: str, target: Address) -> int:
    """Bytes that the other side sent for SEND_S, all of which came."""
    with _connect(source, target) as connection:
        connection.sendall(_SOURCE)
        return _read_to_the_end(connection)


def _read_to_the_end(connection: socket.socket) -> int:
    received, buffer = 0, bytearray(len(_CHUNK))
    while count := connection.recv_into(buffer):
        received += count
    return received


def _connect(source: str, target: Address) -> socket.socket:
    patience = SEND_S + PATIENCE_S
    connection = socket.create_connection(target, timeout=patience, source_address=(source, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _answer(connection: socket.socket) -> None:
    connection.settimeout(SEND_S + PATIENCE_S)
    try:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wanted = _receive(connection, 1)
            if wanted == _ECHO:
                while message := connection.recv(len(_MESSAGE)):
                    connection.sendall(message)
            elif wanted == _SOURCE:
                end = time.monotonic() + SEND_S
                while time.monotonic() < end:
                    connection.send(_CHUNK)
            else:
                connection.sendall(_COUNT.pack(_read_to_the_end(connection)))
    except OSError:
        return  # the peer has gone; it says so itself


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise OSError("the other side closed the connection")
        received += part
    return received


def _retransmits(connection: socket.socket) -> int | None:
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        (count,) = _TOTAL_RETRANS.unpack_from(info)
    except (OSError, struct.error):
        return None
    return int(count)
