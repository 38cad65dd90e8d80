"""How a host's agents join with the introduction that the operator's admission has brought.

The introduction is a token (JWT) that Nomad has signed for this one node, valid for minutes. Each
agent logs in to Consul with it, once, for a token of its own. The Nomad client introduces itself
with it; from then on the client has the identity of its node, which it renews by itself. A restart
or a reboot needs no introduction.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from program.certificate import of_agent
from program.document import JsonObject
from program.errors import HostError
from program.folders import Folders, make_private_folder, substitute, write_private
from program.http_json import Api, ApiError, answered
from program.waiting import say, wait_until

from host.agent_files import secrets_file
from host.document import Agent, Host, Joining

NOMAD = "nomad"  # the agent that introduces itself
# Consul says so with the status 500.
REFUSED = re.compile("error (validating|verifying)")
TOKEN = "token"  # noqa: S105  (the placeholder @token@)


def tokens_of(
    folders: Folders, host: Host, joining: Joining, secrets: JsonObject
) -> dict[str, str]:
    """Each agent's token of Consul: that of a new log-in if there is an introduction, else the one
    in the agent's secrets file. Raises HostError if there is neither."""
    tokens = {}
    for name, auth_method in joining.auth_methods.items():
        if folders.introduction.exists():
            tokens[name] = _log_in(folders, host.name, joining, auth_method, secrets["certificate"])
        else:
            tokens[name] = _kept(folders, host.name, name, secrets["agents"][name])
    return tokens


def with_tokens(secrets: JsonObject, tokens: Mapping[str, str]) -> JsonObject:
    """The secrets with each agent's token in its place."""
    agents = dict(secrets["agents"])
    for name, token in tokens.items():
        agents[name] = substitute(agents[name], {TOKEN: token})
    return {**secrets, "agents": agents}


def remember(folders: Folders, agent: Agent, token: str) -> None:
    """Keep the token with which the agent, once it has ended, is logged out."""
    write_private(_logged_in_with(folders, agent.host, agent.name), token)


def introduce(folders: Folders, agent: Agent) -> None:
    """Put the introduction where the Nomad client reads it when it starts."""
    if agent.name == NOMAD and folders.introduction.exists():
        make_private_folder(_for_nomad(folders, agent).parent)
        write_private(_for_nomad(folders, agent), folders.introduction.read_text())


def complete(folders: Folders, host: Host) -> None:
    """Wait until Nomad's servers know the node, then delete the introduction. Raises HostError."""
    (agent,) = (agent for agent in host.agents if agent.name == NOMAD)
    try:
        wait_until(
            f"{host.name} joins Nomad",
            lambda: _not_registered(folders, host, agent),
            agent.ready_timeout_s,
        )
    except HostError as error:
        raise HostError(f"{error}\n{_fix(host.name)}") from None
    write_private(folders.joined(host.name), f"{host.name}\n")
    for path in (_for_nomad(folders, agent), folders.introduction):
        path.unlink(missing_ok=True)


def log_out(folders: Folders, host: Host, joining: Joining) -> None:
    """End the log-ins of a host's agents, which have ended: Consul deletes their tokens."""
    for name in joining.auth_methods:
        kept = _logged_in_with(folders, host.name, name)
        if not kept.exists():  # it has logged out before
            continue
        token = {"X-Consul-Token": kept.read_text()}
        certificate = of_agent(folders.agent(host.name, name))
        servers = [Api(server, token, certificate=certificate) for server in joining.consul]
        try:
            answered(lambda servers=servers: _first(servers, lambda s: s.post("/v1/acl/logout")))
        except ApiError as error:
            say(f"{host.name}: its log-in to Consul stays: {error}")
        else:
            kept.unlink()


def _log_in(
    folders: Folders, host: str, joining: Joining, auth_method: str, certificate: Mapping[str, str]
) -> str:
    wanted = {
        "AuthMethod": auth_method,
        "BearerToken": folders.introduction.read_text(),
        "Meta": {"host": host},
    }
    with tempfile.TemporaryDirectory(dir=folders.scratch) as folder:
        for name, content in certificate.items():
            write_private(Path(folder) / name, content)
        servers = [Api(server, certificate=Path(folder)) for server in joining.consul]
        answer = answered(lambda: _logged_in(servers, wanted, host))
    say(f"{host}: has logged in to Consul by {auth_method}")
    return str(answer["SecretID"])


def _logged_in(servers: Sequence[Api], wanted: JsonObject, host: str) -> JsonObject:
    """The answer to a log-in. Raises ApiError, and HostError for an introduction that is
    refused."""
    try:
        answer: JsonObject = _first(servers, lambda server: server.post("/v1/acl/login", wanted))
    except ApiError as failure:
        if failure.status == 403 or REFUSED.search(str(failure)):
            raise HostError(f"{host} cannot log in to Consul: {failure}\n{_fix(host)}") from None
        raise
    return answer


def _first(servers: Sequence[Api], ask: Callable[[Api], Any]) -> Any:
    """The answer of the first server that gives one. Raises the last server's ApiError if none
    does."""
    failure = ApiError("there is no server of Consul")
    for server in servers:
        try:
            return ask(server)
        except ApiError as error:
            failure = error
    raise failure


def _logged_in_with(folders: Folders, host: str, agent: str) -> Path:
    """The token of an agent's log-in."""
    return folders.agent(host, agent) / "log-in"


def _kept(folders: Folders, host: str, agent: str, secrets: Mapping[str, Any]) -> str:
    path = secrets_file(folders, host, agent)
    found = _at_placeholder(secrets, json.loads(path.read_text())) if path.exists() else None
    if found is None:
        raise HostError(f"{host} has no introduction, and has not joined before\n{_fix(host)}")
    return found


def _at_placeholder(secrets: Any, before: Any) -> str | None:
    """The text in `before` at the place of the placeholder in `secrets`."""
    if secrets == f"@{TOKEN}@":
        return str(before)
    if not isinstance(secrets, dict) or not isinstance(before, dict):
        return None
    found = (_at_placeholder(secrets[key], before[key]) for key in secrets if key in before)
    return next((token for token in found if token is not None), None)


def _not_registered(folders: Folders, host: Host, agent: Agent) -> str | None:
    """None once a server knows the node, which may read its own entry with its own secret."""
    state = _state(folders, agent)
    try:
        node, secret = ((state / name).read_text() for name in ("client-id", "secret-id"))
    except FileNotFoundError:
        return "its Nomad client has not begun"
    certificate, said = of_agent(folders.agent(host.name, NOMAD)), ""
    for server in host.prerequisites[NOMAD].nomad:
        try:
            Api(server, {"X-Nomad-Token": secret}, certificate=certificate).get(f"/v1/node/{node}")
        except ApiError as error:
            said = "Nomad has not accepted the node" if error.status == 403 else str(error)
        else:
            return None
    return said


def _for_nomad(folders: Folders, agent: Agent) -> Path:
    return _state(folders, agent) / "intro_token.jwt"


def _state(folders: Folders, agent: Agent) -> Path:
    return folders.agent(agent.host, agent.name) / "data" / "client"


def _fix(host: str) -> str:
    return f"fix: slipway admit {host} brings a new one"
