"""The vendors of the tools, played on this machine: their archives, checksums and signatures.

One server is the proxy (HTTPS_PROXY) and, behind it, every vendor by its own name, with a
certificate of an authority of its own (SSL_CERT_FILE). Anything else is passed on to where it
belongs.
"""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import io
import selectors
import socket
import ssl
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pysequoia

from tests.public_certificates import Issued, issue
from toolchain.pins import ArchivePin, ToolPin
from toolchain.sums import write_sums

HOSTS = ("releases.hashicorp.com", "github.com", "get.pulumi.com")
_RELAYED_BYTES = 1 << 16


class SigningKey:
    """A vendor's key. `public` is what a checkout keeps of it."""

    def __init__(self, owner: str) -> None:
        self._secret = pysequoia.Tsk.generate(f"{owner} <security@{owner}.test>")
        self._signer = self._secret.signer()
        self._certificate = self._secret.extract_certificate()

    @property
    def public(self) -> str:
        return str(self._certificate)

    @property
    def fingerprint(self) -> str:
        return self._certificate.fingerprint.upper()

    def sign(self, content: bytes) -> bytes:
        detached = pysequoia.SignatureMode.DETACHED
        return pysequoia.sign(self._signer, content, mode=detached, armor=False)

    def expire(self) -> None:
        """Lets the key be expired from now on, to the second; what it signs, it signs all the
        same."""
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        self._certificate = self._certificate.set_expiration(now, self._secret.certifier())


@dataclass
class Vendors:
    """What is served, by host and path. `cut` breaks a file off in the middle that many times;
    `slow` holds a file back in the middle until its event is set. Hosts in `refused` cannot be
    reached."""

    address: str
    authority: Path
    files: dict[str, bytes | Path] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    slow: dict[str, threading.Event] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """With which a process meets these vendors instead of the real ones."""
        return {"HTTPS_PROXY": self.address, "SSL_CERT_FILE": str(self.authority)}

    def release(
        self, pin: ToolPin, binaries: Mapping[str, bytes | Path], key: SigningKey
    ) -> ArchivePin:
        """Publishes an archive with these binaries, its sums, and their signature where the pin
        wants one."""
        archive = pin.archive
        assert archive is not None
        assert archive.sums is not None
        content = pack(archive, binaries)
        sums = write_sums({archive.file_name: hashlib.sha256(content).hexdigest()}).encode()
        self.files[place(archive.address)] = content
        self.files[place(archive.beside(archive.sums.file_name))] = sums
        if archive.sums.signature:
            self.files[place(archive.beside(archive.sums.signature.file_name))] = key.sign(sums)
        return archive


def place(address: str) -> str:
    """Host and path of an address, by which a file is served."""
    parts = urlsplit(address)
    return f"{parts.hostname}{parts.path}"


def pack(archive: ArchivePin, binaries: Mapping[str, bytes | Path]) -> bytes:
    """A .zip or .tar.gz with the binaries as the members that the pin takes out."""
    members = {_member(archive.members, name): _content(each) for name, each in binaries.items()}
    packed = io.BytesIO()
    if archive.file_name.endswith(".zip"):
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as whole:
            for name, content in members.items():
                whole.writestr(name, content)
    else:
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def _member(patterns: Sequence[str], binary: str) -> str:
    for pattern in patterns:
        folder, _, last = pattern.rpartition("/")
        if fnmatch.fnmatchcase(binary, last):
            return f"{folder.replace('*', '1')}/{binary}" if folder else binary
    raise ValueError(f"no member of {patterns} is {binary}")


def _content(given: bytes | Path) -> bytes:
    return given.read_bytes() if isinstance(given, Path) else given


@contextmanager
def playing_vendors(folder: Path, address: str, others: str = "") -> Iterator[Vendors]:
    """The vendors, until the end of the block; `folder` gets the certificates of their authority
    and of the `others` (PEM)."""
    authority = issue("vendors of a test", authority=True)
    trusted = folder / "authorities.pem"
    trusted.write_text(authority.pem + others)
    context = _context(issue(HOSTS[0], authority, dns_names=HOSTS), folder)
    server = _Server((address, 0), _Handler)
    server.context = context
    server.vendors = Vendors(address=f"http://{address}:{server.server_port}", authority=trusted)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.vendors
    finally:
        for held in server.vendors.slow.values():
            held.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _context(issued: Issued, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", dir=folder) as file:
        file.write(issued.pem + issued.key_pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext
    vendors: Vendors

    def handle_error(self, *_: object) -> None:
        """A client that goes away, or that does not trust the authority, is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        vendors = self.server.vendors
        host, _, port = self.path.partition(":")
        vendors.connected.append(host)
        if host in vendors.refused:
            self.send_error(502)
            return
        if host not in HOSTS:
            self._relay(host, int(port))
            return
        self.send_response_only(200)
        self.end_headers()
        self.connection = self.server.context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        vendors = self.server.vendors
        wanted = self.headers.get("host", "").partition(":")[0] + urlsplit(self.path).path
        if self.command == "GET":
            vendors.asked.append(wanted)
        if wanted in vendors.redirects:
            self.send_response(302)
            self.send_header("location", vendors.redirects[wanted])
            self.send_header("content-length", "0")
            self.end_headers()
        elif wanted in vendors.files:
            self._send(wanted, _content(vendors.files[wanted]))
        else:
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

    def _send(self, wanted: str, content: bytes) -> None:
        vendors = self.server.vendors
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        half = len(content) // 2
        self.wfile.write(content[:half])
        if vendors.cut.get(wanted, 0) > 0:
            vendors.cut[wanted] -= 1
            self.close_connection = True
            return
        if wanted in vendors.slow:
            vendors.slow[wanted].wait()
        self.wfile.write(content[half:])

    def _relay(self, host: str, port: int) -> None:
        """Passes on what another host is asked, which is none of the vendors'."""
        self.close_connection = True
        try:
            other = socket.create_connection((host, port))
        except OSError:
            self.send_error(502)
            return
        self.send_response_only(200)
        self.end_headers()
        with other, selectors.DefaultSelector() as ready:
            ready.register(self.connection, selectors.EVENT_READ, other)
            ready.register(other, selectors.EVENT_READ, self.connection)
            while True:
                for each, _ in ready.select():
                    source, target = each.fileobj, each.data
                    assert isinstance(source, socket.socket)
                    content = source.recv(_RELAYED_BYTES)
                    if not content:
                        return
                    target.sendall(content)

    def log_message(self, *_: object) -> None:
        pass
