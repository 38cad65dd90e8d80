"""Replace the gossip key of a running cluster: the new key is added, used, and then alone.

    rotate_gossip.py apply     document in SLIPWAY_DOCUMENT (schemas/gossip.schema.json), the token
                               and the key as JSON on standard input

Runs before the agents' files change: agents start with the key in their files, and must find others
that have it. Without a cluster there is nothing to replace. A run that was killed can be repeated.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

from contextlib import suppress

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.http_json import Api, ApiError, operators, without_leader
from program.waiting import say, wait_until

from gossip.keyrings import KEYRINGS, Keyring

SCHEMA = "gossip.schema.json"
SCHEMA_VERSION = 1
# How long the way to a cluster may be interrupted. If a running cluster were taken for a stopped
# one, its agents would get the key one by one, and those with the new key would not hear the
# others.
SILENCE_S = 20.0


def apply(document: JsonObject, secrets: JsonObject) -> None:
    with parsing(SCHEMA):
        system, timeout_s = document["system"], document["timeout_s"]
        name = system.title()
        token, key = {f"X-{name}-Token": secrets["management_token"]}, secrets["key"]
        servers = [operators(address, token) for address in document["servers"]]
        keyring_of = KEYRINGS[system]
    server = _running(name, servers)
    if server is None:
        say(f"{name}: does not run yet, so its agents will start with the key")
        return
    wait_until(name, lambda: without_leader(server), timeout_s)
    keyring = keyring_of(server)
    wait_until(f"{name}'s gossip key", lambda: _not_replaced(keyring, key), timeout_s)
    say(f"{name}: all agents use this gossip key, and it alone")


def _not_replaced(keyring: Keyring, key: str) -> str | None:
    """Replace the key. Returns why that failed if it may pass: an agent that is busy may not answer
    in time. Every step can be repeated."""
    try:
        if keyring.keys().known_to.keys() == {key}:
            return None
        keyring.install(key)
        found = keyring.keys()
        if (having := found.known_to.get(key, 0)) < found.agents:
            return f"{having} of {found.agents} agents have it"
        keyring.use(key)
        for old in found.known_to.keys() - {key}:
            keyring.remove(old)
    except ApiError as error:
        if error.may_pass:
            return str(error)
        raise HostError(f"the gossip key was not replaced: {error}") from None
    return None


def _running(name: str, servers: list[Api]) -> Api | None:
    """The first server that answers; None if none does for a while."""
    running: Api | None = None

    def missing() -> str | None:
        nonlocal running
        running = _answering(servers)
        return None if running else "no server answers"

    with suppress(HostError):
        wait_until(name, missing, SILENCE_S)
    return running


def _answering(servers: list[Api]) -> Api | None:
    for server in servers:
        try:
            server.get("/v1/status/peers")
        except ApiError as error:
            if error.status is None:
                continue
        return server
    return None


def run() -> None:
    expect_apply("rotate_gossip.py")
    apply(read_document(SCHEMA_VERSION), read_secrets())


def main() -> int:
    return exit_code(run)
