"""The gate of the certificate for clients, before servers that speak TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import Authority, own_der
from gates import certificate
from gates.certificate import Gate, apply, missing, read_gate
from hangs import HANG_S
from program.errors import HostError, InputError

NAME = "llm.example.com"
AUTHORITY = Authority()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "CONNECT_TIMEOUT_S", HANG_S)


class Listener:
    """Shows a certificate that can be replaced; knows how many clients came."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = self._socket.getsockname()
        self.asked_for: list[str | None] = []
        self.fingerprint = ""

    def show(self, name: str = NAME) -> None:
        files = AUTHORITY.issue(name, [name])
        for file, content in files.items():
            (self._folder / file).write_text(content)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "cert.pem", self._folder / "key.pem")
        context.sni_callback = lambda _, name, __: self.asked_for.append(name)
        self._context = context
        self.fingerprint = certificate.fingerprint(own_der(files["cert.pem"]))

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            try:
                self._context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def listening(folder: Path) -> Iterator[Listener]:
    folder.mkdir()
    listener = Listener(folder)
    listener.show()
    thread = threading.Thread(target=listener.serve)
    thread.start()
    try:
        yield listener
    finally:
        listener.close()
        thread.join()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    with listening(tmp_path / "listener") as started:
        yield started


def gate_of(fingerprint: str, *listeners: Listener, deadline_s: float = 60) -> Gate:
    return read_gate(
        {
            "schema_version": 1,
            "server_name": NAME,
            "fingerprint": fingerprint,
            "listeners": {
                f"envoy-{number}": f"127.0.0.1:{each.place[1]}"
                for number, each in enumerate(listeners)
            },
            "deadline_s": deadline_s,
        }
    )


def test_the_certificate_is_asked_for_by_its_name(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(gate_of(listener.fingerprint, listener))
    assert listener.asked_for == [NAME]
    assert "certificate: 1 of 1 Envoys show " in capsys.readouterr().out


def test_every_listener_must_show_it(listener: Listener, tmp_path: Path) -> None:
    with listening(tmp_path / "other") as other:
        gate = gate_of(listener.fingerprint, listener, other)
        assert missing(gate) == (
            f"envoy-1 at 127.0.0.1:{other.place[1]} still shows {other.fingerprint[:16]}…"
        )


def test_it_waits_until_the_new_one_is_shown(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = listener.fingerprint, list[str]()
    listener.show()
    wanted = listener.fingerprint
    answers = iter([before, before, wanted])
    monkeypatch.setattr(certificate, "shown", lambda *_: seen.append(n := next(answers)) or n)
    apply(gate_of(wanted, listener))
    assert seen == [before, before, wanted]


@pytest.mark.usefixtures("clock")
def test_the_last_thing_seen_is_said_when_the_time_is_up(listener: Listener) -> None:
    before = listener.fingerprint
    with pytest.raises(HostError) as caught:
        apply(gate_of("0" * 64, listener))
    assert f"gave up after 60 s: envoy-0 at 127.0.0.1:{listener.place[1]}" in str(caught.value)
    assert f"still shows {before[:16]}…" in str(caught.value)
    assert "fix: " in str(caught.value)


def test_a_listener_that_refuses_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = closed.getsockname()
    said = missing(Gate(NAME, "0" * 64, {"envoy": place}, 5))
    assert said == f"envoy at 127.0.0.1:{place[1]}: [Errno 111] Connection refused"


def test_a_listener_that_speaks_plain_text_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        place = plain.getsockname()

        def answer() -> None:
            connection, _ = plain.accept()
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        said = missing(Gate(NAME, "0" * 64, {"envoy": place}, 5))
        thread.join()
    assert said is not None
    assert said.startswith(f"envoy at 127.0.0.1:{place[1]}: ")


def test_a_document_without_listeners_is_an_error_in_the_document() -> None:
    with pytest.raises(InputError, match=r"certificate-gate\.schema\.json"):
        read_gate({"schema_version": 1, "server_name": NAME, "fingerprint": "0" * 64})
