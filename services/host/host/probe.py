"""Asks a running agent whether it is ready, and which certificate it shows."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from socket import create_connection

from program.certificate import CERTIFICATE, client_context, of_agent
from program.errors import InputError
from program.folders import Folders

from host.document import Agent

PROBE_TIMEOUT_S = 2


def not_ready(folders: Folders, agent: Agent) -> str | None:
    """None if the agent answers at its `ready_url`; otherwise what it answered."""
    _, failure = _ask(folders, agent, agent.ready_url)
    return failure


def knows_no_leader(folders: Folders, agent: Agent, leader_url: str) -> str | None:
    """None if the server's answer at `leader_url` names a leader."""
    answer, failure = _ask(folders, agent, leader_url)
    if failure is not None:
        return failure
    try:
        return None if json.loads(answer) else f"{leader_url}: no leader"
    except ValueError as error:
        return f"{leader_url}: {error}"


def shows_old_certificate(folders: Folders, agent: Agent) -> str | None:
    """None if the agent shows the certificate of its folder to clients."""
    folder = _certificate(folders, agent)
    # The file may hold the authorities that signed it after the certificate itself.
    first, separator, _ = (folder / CERTIFICATE).read_text().partition(ssl.PEM_FOOTER)
    address = urllib.parse.urlsplit(agent.ready_url)
    try:
        with (
            create_connection((address.hostname, address.port), PROBE_TIMEOUT_S) as connection,
            client_context(folder).wrap_socket(
                connection, server_hostname=address.hostname
            ) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except OSError as error:
        return f"{address.netloc}: {error}"
    if shown == ssl.PEM_cert_to_DER_cert(first + separator):
        return None
    return f"{address.netloc} still shows its old certificate"


def _ask(folders: Folders, agent: Agent, url: str) -> tuple[bytes, str | None]:
    """(the agent's answer, why there is none)."""
    try:
        with urllib.request.urlopen(  # noqa: S310
            url, timeout=PROBE_TIMEOUT_S, context=_context(folders, agent)
        ) as response:
            return response.read(), None
    except urllib.error.HTTPError as error:
        said = error.read(200).decode(errors="replace").strip()
        return b"", f"{url}: HTTP {error.code} {said}"
    except (OSError, http.client.HTTPException, InputError) as error:
        return b"", f"{url}: {error}"


def _context(folders: Folders, agent: Agent) -> ssl.SSLContext | None:
    """Raises InputError if the files of the certificate cannot be read."""
    if not agent.ready_url.startswith("https:"):
        return None
    return client_context(_certificate(folders, agent))


def _certificate(folders: Folders, agent: Agent) -> Path:
    return of_agent(folders.agent(agent.host, agent.name))
