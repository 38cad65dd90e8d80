"""Replace the gossip key of a running cluster: the new key is added, used, and then alone.

    rotate_gossip.py apply     document in SLIPWAY_DOCUMENT (schemas/gossip.schema.json), the token
                               and the key as JSON on standard input

Runs before the agents' files change: agents start with the key in their files, and must find others
that have it. Without a cluster there is nothing to replace. A run that was killed can be repeated.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

from gossip.keyrings import KEYRINGS, Keyring

SCHEMA = "gossip.schema.json"
SCHEMA_VERSION = 1


def apply(document: JsonObject, secrets: JsonObject) -> None:
    with parsing(SCHEMA):
        system, timeout_s = document["system"], document["timeout_s"]
        name = system.title()
        token, key = {f"X-{name}-Token": secrets["management_token"]}, secrets["key"]
        servers = [operators(address, token) for address in document["servers"]]
        keyring_of = KEYRINGS[system]
    server = _running(servers)
    if server is None:
        say(f"{name}: does not run yet, so its agents will start with the key")
        return
    wait_until(name, lambda: _without_leader(server), timeout_s)
    try:
        _rotate(keyring_of(server), key, name, timeout_s)
    except ApiError as error:
        raise HostError(f"{name}: not every agent has the new gossip key: {error}") from None


def _rotate(keyring: Keyring, key: str, name: str, timeout_s: int) -> None:
    if keyring.keys().known_to.keys() == {key}:
        say(f"{name}: uses this gossip key already")
        return
    keyring.install(key)
    wait_until(f"{name}'s gossip key", lambda: _not_everywhere(keyring, key), timeout_s)
    keyring.use(key)
    for old in keyring.keys().known_to.keys() - {key}:
        keyring.remove(old)
    say(f"{name}: {keyring.keys().agents} agents use the new gossip key alone")


def _not_everywhere(keyring: Keyring, key: str) -> str | None:
    found = keyring.keys()
    having = found.known_to.get(key, 0)
    return None if having == found.agents else f"{having} of {found.agents} agents have it"


def _running(servers: list[Api]) -> Api | None:
    """The first server that answers."""
    for server in servers:
        try:
            server.get("/v1/status/peers")
        except ApiError as error:
            if error.status is None:
                continue
        return server
    return None


def _without_leader(server: Api) -> str | None:
    try:
        return None if server.get("/v1/status/leader") else "no leader has been elected"
    except ApiError as error:
        return str(error)


def run() -> None:
    expect_apply("rotate_gossip.py")
    apply(read_document(SCHEMA_VERSION), read_secrets())


def main() -> int:
    return exit_code(run)
