"""Bootstrap Nomad's ACLs with a given management token.

    nomad_acl.py apply     document in SLIPWAY_DOCUMENT (schemas/nomad-acl.schema.json), the token
                           as JSON on standard input

The Pulumi program creates the token, so a cluster that already has it is accepted. There is no
anonymous policy: without a token Nomad answers only health requests. Nothing has to be removed at
the end: the ACLs are deleted with the servers' data, and the operator's token file with the last
agent.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.folders import Folders, write_private
from program.http_json import Api, ApiError, operators
from program.waiting import say, wait_until

SCHEMA = "nomad-acl.schema.json"
SCHEMA_VERSION = 1


def apply(folders: Folders, document: JsonObject, secrets: JsonObject) -> None:
    """Wait for a leader, bootstrap, and leave the operator's token in a 0600 file."""
    with parsing(SCHEMA):
        token = secrets["management_token"]
        address, timeout_s = document["address"], document["leader_timeout_s"]
    nomad = operators(address)
    took_s = wait_until("Nomad", lambda: _missing(nomad), timeout_s)
    say(f"Nomad: has a leader, {took_s:.1f} s")
    _bootstrap(nomad, token)
    _verify(operators(address, {"X-Nomad-Token": token}))
    write_private(folders.token("nomad"), token)
    say("Nomad: accepts the operator's token")


def _bootstrap(nomad: Api, token: str) -> None:
    try:
        nomad.post("/v1/acl/bootstrap", {"BootstrapSecret": token})
    except ApiError as error:
        if "bootstrap already done" not in str(error):
            raise HostError(f"Nomad's ACLs cannot be bootstrapped: {error}") from None


def _verify(nomad: Api) -> None:
    try:
        kind = nomad.get("/v1/acl/token/self")["Type"]
    except ApiError as error:
        raise HostError(
            f"Nomad was bootstrapped with another token ({error}): its data belongs to another "
            "environment's state. `slipway down` removes it."
        ) from None
    if kind != "management":
        raise HostError(f"Nomad's token is a {kind} token, not a management token")


def _missing(nomad: Api) -> str | None:
    try:
        if not nomad.get("/v1/status/leader"):
            return "no leader has been elected"
        # Consul fetches these keys when the auth method for workload identities is created.
        return None if nomad.get("/.well-known/jwks.json")["keys"] else "there is no signing key"
    except ApiError as error:
        return str(error)


def run() -> None:
    expect_apply("nomad_acl.py")
    apply(Folders.from_environment(), read_document(SCHEMA_VERSION), read_secrets())


def main() -> int:
    return exit_code(run)
