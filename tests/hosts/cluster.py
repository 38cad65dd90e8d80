"""A server and a node on hosts of the test bed, applied over SSH as the platform does.

The documents are the renderers' own for hosts under systemd, moved to the addresses of the bed. The
operator is this machine: permissions are applied from here.
"""

from __future__ import annotations

import json
import re
import shlex
import ssl
import subprocess
import sys
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from components import seeds
from components.consul import acl
from components.consul import agent_config as consul
from components.consul.task_roles import task_roles
from components.hosts.document import secrets_document
from components.hosts.supervision import Systemd
from components.joining.tokens import HostTokens
from components.node_pool.node_document import node_document, node_secrets
from components.nomad import agent_config as nomad
from services.program.tests.certificates import NODE, SERVER, Authority
from slipway.plan.platform import PlatformPlan
from tests.components.cluster_plan import cluster_plan
from tests.hosts.bed import NETWORK, Host
from tests.waiting import HANG_S

SERVICES = Path(__file__).parents[2] / "services"
RUN, CACHE, SCRATCH = "/var/lib/slipway/dev", "/opt/slipway", "/run/slipway/dev"
ADDRESSES = {"server-0": f"{NETWORK}.11", "cpu-0": f"{NETWORK}.21"}
# The addresses of the plan.
MOVED = {"127.77.0.1": ADDRESSES["server-0"], "127.77.0.16": ADDRESSES["cpu-0"]}
ROLES = {"server-0": SERVER, "cpu-0": NODE}
JsonObject = dict[str, Any]


@dataclass(kw_only=True)
class HostCluster:
    """One server (server-0) and one node (cpu-0) by name.

    `operator` is this machine's SLIPWAY_RUN.
    """

    hosts: Mapping[str, Host]
    operator: Path
    plan: PlatformPlan = field(default_factory=cluster_plan)
    authority: Authority = field(default_factory=Authority)
    seed: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.joining = HostTokens()
        self.certificates = {host: self.issue(host) for host in self.hosts}
        self.management = {
            "consul": seeds.token(self.seed, acl.MANAGEMENT),
            "nomad": seeds.token(self.seed, "of nomad"),
        }

    def issue(self, host: str) -> dict[str, str]:
        return self.authority.issue(host, ROLES[host], (ADDRESSES[host], "127.0.0.1"))

    def place(self, tools: Mapping[str, Path]) -> None:
        """The code and the tools, as the platform puts them on a host."""
        bundle = f"{CACHE}/bundles/{self.plan.node_agent.bundle}"

        def place_on(host: Host) -> None:
            host.put(SERVICES / "host", bundle)
            for tool, version in self.plan.tools.items():
                host.put(tools[tool], f"{CACHE}/tools/bin/{tool}-{version}")

        with ThreadPoolExecutor() as at_once:
            list(at_once.map(place_on, self.hosts.values()))

    def up(self) -> None:
        certificate = self.authority.issue("operator")
        self.gate("operator_access.py", {}, {"certificate": certificate})
        self.apply("server-0", self.consul_document(), self.server_secrets())
        self.apply_permissions()
        self.apply("server-0", self.nomad_document(), self.server_secrets())
        address = self.url("server-0", 4646)
        self.gate(
            "nomad_acl.py",
            {"address": address, "leader_timeout_s": 60},
            {"management_token": self.management["nomad"]},
        )
        self.apply("cpu-0", self.node_document(), self.node_secrets())

    def apply_permissions(self) -> None:
        document = acl.acl_document(
            self.plan.consul.url, self.joining.tokens(self.plan), task_roles(self.plan).values()
        )
        tokens = self.joining.token_secrets(self.plan, self.seed)
        self.gate("consul_acl.py", document, acl.acl_secrets(tokens, self.seed))

    def consul_document(self) -> JsonObject:
        return _moved(consul.server_document(self.plan, self.plan.servers[0], Systemd()))

    def nomad_document(self) -> JsonObject:
        return _moved(
            nomad.server_document(self.plan, self.plan.servers[0], Systemd(), self.joining)
        )

    def node_document(self) -> JsonObject:
        pool = self.plan.pools[0]
        return _moved(node_document(self.plan, pool, pool.hosts[0], Systemd(), self.joining))

    def server_secrets(self) -> JsonObject:
        tokens = (
            self.joining.consul_token("server-0", self.seed),
            self.joining.nomad_token("server-0", self.seed),
        )
        agents = {
            "consul": consul.server_secrets(self.seed, tokens[0]),
            "nomad": nomad.server_secrets(self.seed, tokens[1]),
            nomad.KEY_PUBLISHER: {},
        }
        return secrets_document(agents, self.certificates["server-0"])

    def node_secrets(self) -> JsonObject:
        known = {"seed": self.seed, "certificate": self.certificates["cpu-0"]}
        return node_secrets(self.joining, "cpu-0", 1, known)

    def apply(self, host: str, document: JsonObject, secrets: JsonObject) -> str:
        return self.agents(host, "apply", document, secrets)

    def agents(
        self,
        host: str,
        action: str,
        document: JsonObject | None = None,
        secrets: JsonObject | None = None,
        within_s: int = 120,
    ) -> str:
        """Runs agents.py on a host, which is killed after `within_s`; returns what it prints."""
        variables = {"SLIPWAY_RUN": RUN, "SLIPWAY_CACHE": CACHE, "SLIPWAY_SCRATCH": SCRATCH}
        if document is not None:
            variables["SLIPWAY_DOCUMENT"] = json.dumps(document)
        assignments = " ".join(f"{name}={shlex.quote(text)}" for name, text in variables.items())
        script = f"{CACHE}/bundles/{self.plan.node_agent.bundle}/agents.py"
        given = "" if secrets is None else json.dumps(secrets)
        return self.hosts[host].ssh(
            f"{assignments} timeout -s KILL {within_s} /usr/bin/python3 -B {script} {action}", given
        )

    def gate(self, script: str, document: JsonObject, secrets: JsonObject) -> None:
        """Runs a program of the operator's machine."""
        versions = {"schema_version": 1}
        done = subprocess.run(
            [sys.executable, "-B", str(SERVICES / "operator" / script), "apply"],
            input=json.dumps(versions | secrets),
            env={
                "SLIPWAY_RUN": str(self.operator),
                "SLIPWAY_CACHE": str(self.operator),
                "SLIPWAY_SCRATCH": str(self.operator),
                "SLIPWAY_DOCUMENT": json.dumps(versions | _moved(document)),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def url(self, host: str, port: int) -> str:
        return f"https://{ADDRESSES[host]}:{port}"

    def context(self) -> ssl.SSLContext:
        """Shows the operator's certificate."""
        folder = self.operator / "operator"
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        return context

    def ask(self, host: str, port: int, path: str, *, put: JsonObject | None = None) -> Any:
        """Consul's and Nomad's APIs as the operator; a body is put."""
        headers = {
            "X-Consul-Token": self.management["consul"],
            "X-Nomad-Token": self.management["nomad"],
        }
        with httpx.Client(verify=self.context(), headers=headers, timeout=HANG_S) as client:
            method = "GET" if put is None else "PUT"
            answer = client.request(method, self.url(host, port) + path, json=put)
        return answer.raise_for_status().json()

    def status(self, host: str) -> dict[str, JsonObject]:
        """The records of `agents.py status` by agent."""
        records = json.loads(self.agents(host, "status --json").splitlines()[0])
        return {record["agent"]: record for record in records}

    def pids(self, host: str) -> dict[str, int]:
        return {agent: record["pid"] for agent, record in self.status(host).items()}


def _moved(document: Mapping[str, Any]) -> JsonObject:
    """A document on the addresses of the bed."""
    text = re.sub(
        r"127\.77\.0\.\d+", lambda found: MOVED.get(found[0], found[0]), json.dumps(document)
    )
    moved: JsonObject = json.loads(text)
    return moved
