"""Bootstrap Nomad's ACLs with a given management token.

    nomad_acl.py apply     document in SLIPWAY_DOCUMENT, the token as JSON on standard input
    nomad_acl.py remove    delete the operator's token file; the ACLs go with the servers' data

The token is made by the Pulumi program, so a cluster that already has it is simply accepted. No
anonymous policy is made: without a token Nomad answers nothing but its health.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from document import read_document, read_secrets
from errors import HostError, InputError, exit_code
from folders import Folders, write_private
from http_json import Api, ApiError
from waiting import say, wait_until


def apply(folders: Folders, document: dict[str, Any], secrets: dict[str, Any]) -> None:
    """Wait for a leader, bootstrap, and leave the operator's token in a 0600 file."""
    token = secrets["management_token"]
    nomad = Api(document["address"])
    took_s = wait_until("Nomad", lambda: _missing(nomad), document["leader_timeout_s"])
    say(f"Nomad: has a leader, {took_s:.1f} s")
    _bootstrap(nomad, token)
    _verify(Api(document["address"], {"X-Nomad-Token": token}))
    write_private(folders.token("nomad"), token)
    say("Nomad: takes the operator's token")


def remove(folders: Folders) -> None:
    folders.token("nomad").unlink(missing_ok=True)


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
            f"Nomad was bootstrapped with another token ({error}): its data is of another "
            "environment's state. `slipway down` removes it."
        ) from None
    if kind != "management":
        raise HostError(f"Nomad's token is a {kind} token, not a management token")


def _missing(nomad: Api) -> str | None:
    try:
        if not nomad.get("/v1/status/leader"):
            return "no leader is elected"
        # Consul fetches these keys when it is told about workload identities.
        return None if nomad.get("/.well-known/jwks.json")["keys"] else "no signing key is made"
    except ApiError as error:
        return str(error)


def _actions(folders: Folders) -> dict[str, Callable[[], None]]:
    return {
        "apply": lambda: apply(folders, read_document(), read_secrets()),
        "remove": lambda: remove(folders),
    }


def main(arguments: list[str]) -> None:
    actions = _actions(Folders.from_environment())
    if len(arguments) != 1 or arguments[0] not in actions:
        raise InputError("usage: nomad_acl.py apply|remove")
    actions[arguments[0]]()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
