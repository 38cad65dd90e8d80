"""The conditions that a Nomad client waits for before it starts.

A Consul agent that has just started looks for its servers and then, at a random moment within three
seconds, compares its services with the catalog. If a service is being registered at that moment,
the comparison is delayed by 15 to 30 s, and the servers see no checks until then (Consul 1.22.6,
agent/ae/ae.go). Once the agent's own service is in the catalog that moment has passed, unless the
entry is from an earlier start.

A Nomad client that finds no leader retries its registration only after 15 s.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Sequence

from program.certificate import of_agent
from program.folders import Folders
from program.http_json import Api, ApiError
from program.waiting import say, wait_until

from host.agent_files import agents_on_disk, prerequisites_of, secrets_file
from host.document import Agent

# The deadline of a unit that starts at boot, or again after a crash. Nomad's servers give a silent
# node up a little later, so after a crash the agent is back in time also without Consul or a
# leader.
AT_BOOT_S = 30


def wait_at_boot(folders: Folders, name: str) -> None:
    """Raises HostError with what is missing; the agent then starts nevertheless."""
    for agent in agents_on_disk(folders):
        if agent.name == name:
            wait_for_prerequisites(folders, agent, AT_BOOT_S)


def wait_for_prerequisites(folders: Folders, agent: Agent, timeout_s: float | None = None) -> None:
    """Raises HostError with what is missing when the time is up, by default the agent's."""
    prerequisites = prerequisites_of(folders, agent)
    if prerequisites is None:
        return
    token = _consul_agents_token(folders, agent.host)
    certificate = of_agent(folders.agent(agent.host, agent.name))
    consul = Api(prerequisites.consul, {"X-Consul-Token": token}, certificate=certificate)
    servers = [Api(server, certificate=certificate) for server in prerequisites.nomad]

    def missing() -> str | None:
        service = prerequisites.consul_service
        return _not_in_catalog(consul, service, agent.host) or _no_leader(servers)

    what = f"{agent.name} on {agent.host}: prerequisites"
    took_s = wait_until(what, missing, timeout_s or agent.ready_timeout_s)
    say(f"{what} met after {took_s:.1f} s")


def _not_in_catalog(consul: Api, service: str, host: str) -> str | None:
    query = urllib.parse.urlencode({"filter": f'Node == "{host}"'})
    try:
        found = consul.get(f"/v1/catalog/service/{service}?{query}")
    except ApiError as error:
        return str(error)
    return None if found else f"Consul's catalog has no {service} on {host}"


def _no_leader(servers: Sequence[Api]) -> str | None:
    """None if a server knows a leader; otherwise the last server's answer."""
    said = ""
    for server in servers:
        try:
            if server.get("/v1/status/leader"):
                return None
            said = "Nomad has no leader"
        except ApiError as error:
            said = str(error)
    return said


def _consul_agents_token(folders: Folders, host: str) -> str:
    secrets = json.loads(secrets_file(folders, host, "consul").read_text())
    return str(secrets["acl"]["tokens"]["agent"])
