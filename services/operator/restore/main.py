"""Restore the clusters' states from snapshots.

    restore_snapshot.py verify    document in SLIPWAY_DOCUMENT (schemas/restore.schema.json)
    restore_snapshot.py apply     the same, and tokens as JSON on standard input

For servers that have lost their data and run again, with the same seeds: a fresh Nomad is
bootstrapped first, because only an operator may restore. The agents, tokens and jobs of the
snapshot are those that still run. Raft replaces the whole state at once; a restore that failed can
be run again.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import sys
from pathlib import Path

from permissions import nomad as nomad_acl
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, InputError, exit_code
from program.folders import Folders
from program.http_json import Api, ApiError, operators, without_leader
from program.snapshots import PATHS, TIMEOUT_S, verify
from program.waiting import say, wait_until

SCHEMA = "restore.schema.json"
SCHEMA_VERSION = 1


def verify_files(document: JsonObject) -> None:
    """Raises HostError if one of the two files is damaged."""
    with parsing(SCHEMA):
        files = [Path(document[system]["file"]) for system in PATHS]
    for file in files:
        verify(file)


def apply(folders: Folders, document: JsonObject, secrets: JsonObject) -> None:
    """Verify both files before the first change. Raises HostError with what went wrong."""
    with parsing(SCHEMA):
        timeout_s = document["leader_timeout_s"]
        files = {system: Path(document[system]["file"]) for system in PATHS}
        tokens = {system: secrets[system] for system in PATHS}
        apis = {
            system: operators(
                document[system]["address"],
                {f"X-{system.title()}-Token": tokens[system]},
                timeout_s=TIMEOUT_S,
            )
            for system in PATHS
        }
    verify_files(document)
    bootstrap = {"address": document["nomad"]["address"], "leader_timeout_s": timeout_s}
    nomad_acl.apply(folders, bootstrap, {"management_token": tokens["nomad"]})
    for system, api in apis.items():
        _restore(system, api, files[system], timeout_s)


def _restore(system: str, api: Api, file: Path, timeout_s: int) -> None:
    name = system.title()
    wait_until(name, lambda: without_leader(api), timeout_s)
    try:
        api.upload(PATHS[system], file)
    except ApiError as error:
        raise HostError(f"{name} was not restored: {error}") from None
    took_s = wait_until(name, lambda: without_leader(api), timeout_s)
    say(f"{name}: restored from {file.name}, has a leader after {took_s:.1f} s")


def run() -> None:
    match sys.argv[1:]:
        case ["verify"]:
            verify_files(read_document(SCHEMA_VERSION))
        case ["apply"]:
            apply(Folders.from_environment(), read_document(SCHEMA_VERSION), read_secrets())
        case _:
            raise InputError("usage: restore_snapshot.py verify | apply")


def main() -> int:
    return exit_code(run)
