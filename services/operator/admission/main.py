"""Admits a host to the clusters, and has them forget it once its agents are removed.

    admit.py apply      document in SLIPWAY_DOCUMENT (schemas/admission.schema.json), the operator's
                        tokens as JSON on standard input
    admit.py remove     the same; needs no connection to the host

A host that has joined, and that Nomad lists, is left alone. For another one Nomad signs a token
that introduces this one node, and it goes over SSH straight into a file of the host that only root
can read, in memory. It is in no command line, and not in Pulumi's state.
services/host/host/introduction.py uses it.

Private keys come from an ssh-agent (SSH_AUTH_SOCK). Environment: SLIPWAY_RUN.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from delivery.ssh import Connection, connected
from program.clusters import forget, nodes
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, InputError, exit_code
from program.folders import Folders
from program.http_json import Api, ApiError, operators
from program.waiting import say

from admission.document import SCHEMA, SCHEMA_VERSION, Admission, read_admission
from admission.introduction import Ids, forget_earlier, introduction

LOOK = """
for file in {client} {agent} {joined}; do
  printf '%s\\n' "$(cat "$file" 2>/dev/null)"
done
"""
BRING = """
set -e
umask 077
[ -d {parent} ] || mkdir -m 755 {parent}
mkdir -p {scratch}
cat > {introduction}.new
mv {introduction}.new {introduction}
"""


def apply(admission: Admission, nomad: Api, consul: Api) -> None:
    host, folders = admission.host, admission.folders
    with connected(host, admission.place, admission.jump) as connection:
        own, joined = _look(connection, host, folders)
        try:
            if joined and own.nomad in {node["ID"] for node in nodes(nomad, host)}:
                say(f"{host}: has joined")
                return
            forget_earlier(nomad, consul, host, own)
            token = introduction(nomad, host, admission.pool, admission.ttl_s)
        except ApiError as error:
            raise HostError(f"{host} cannot be admitted: {error}") from None
        bring = _quoted(
            BRING,
            parent=folders.scratch.parent,
            scratch=folders.scratch,
            introduction=folders.introduction,
        )
        with connection.writing_to(bring) as sink:
            sink.write(token.encode())
    say(f"{host}: may join pool {admission.pool} within {admission.ttl_s} s")


def _look(connection: Connection, host: str, folders: Folders) -> tuple[Ids, bool]:
    """The IDs of the host's agents in the clusters, and whether they have joined."""
    look = _quoted(
        LOOK,
        client=folders.agent(host, "nomad") / "data/client/client-id",
        agent=folders.agent(host, "consul") / "data/node-id",
        joined=folders.joined(host),
    )
    client, agent, joined = connection.run(look).splitlines()
    return Ids(nomad=client, consul=agent), bool(joined)


def _quoted(script: str, **paths: Path) -> str:
    return script.format(**{name: shlex.quote(str(path)) for name, path in paths.items()})


def remove(admission: Admission, nomad: Api, consul: Api) -> None:
    host = admission.host
    try:
        forget(nomad, consul, host)
    except ApiError as error:
        raise HostError(
            f"{host} is still listed in the clusters: {error}\n"
            "fix: bring their servers back, then run it again; it needs no connection to"
            f" {host}"
        ) from None
    say(f"{host}: Nomad and Consul have forgotten it")


def run(arguments: list[str]) -> None:
    if arguments not in (["apply"], ["remove"]):
        raise InputError("usage: admit.py apply|remove")
    admission = read_admission(read_document(SCHEMA_VERSION))
    nomad, consul = _clusters(admission, read_secrets())
    (remove if arguments == ["remove"] else apply)(admission, nomad, consul)


def _clusters(admission: Admission, secrets: JsonObject) -> tuple[Api, Api]:
    with parsing(SCHEMA):
        return (
            operators(admission.nomad, {"X-Nomad-Token": secrets["nomad_token"]}),
            operators(admission.consul, {"X-Consul-Token": secrets["consul_token"]}),
        )


def main() -> int:
    return exit_code(lambda: run(sys.argv[1:]))
