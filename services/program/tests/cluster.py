"""A real cluster on loopback addresses, applied with the programs as the platform does.

The documents are the renderers' own golden files, or those that the program of before rendered,
moved to another network; secrets are made here, in the form of schemas/node.schema.json.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import supervisor  # type: ignore[import-untyped]
from certificates import NODE, SERVER, Authority
from hangs import HANG_S
from program.http_json import Api, ApiError
from program.waiting import wait_until

SERVICES = Path(__file__).parents[2]
GOLDEN = SERVICES.parent / "tests/golden/node"
BEFORE = Path(__file__).parent / "documents_of_before"  # the version before each of today's schemas
HOSTS = ("server-0", "cpu-0")
# `python3 -m http.server` looks up the name of its address first, and waits for the DNS server.
FILE_SERVER = (
    "import http.server, socketserver, sys; "
    "socketserver.ThreadingTCPServer.allow_reuse_address = True; "
    "address = (sys.argv[1], int(sys.argv[2])); "
    "handler = http.server.SimpleHTTPRequestHandler; "
    "socketserver.ThreadingTCPServer(address, handler).serve_forever()"
)
JsonObject = dict[str, Any]


@dataclass
class Cluster:
    """One server and one node. `prefix` is what addresses begin with, in place of 127.77.0.

    `become` is put before every command line, to run as another user.
    """

    root: Path
    prefix: str
    services: Path = SERVICES
    documents: Path = GOLDEN
    python: Path = Path(sys.executable)
    become: Sequence[str] = ()

    def __post_init__(self) -> None:
        # The documents of before are of clusters without TLS.
        self.scheme = "https" if self.documents == GOLDEN else "http"
        self.authority = Authority()
        self._certificates: dict[str, dict[str, str]] = {}
        self.run_folder = self.root / "the checkout" / ".slipway" / "dev"
        self.scratch = self.root / "scratch"
        self.management = {"consul": _token(), "nomad": _token()}
        self.keys = {"consul": _gossip_key(), "nomad": _gossip_key()}
        accessors = [token["AccessorID"] for token in self.golden("consul-acl")["tokens"]]
        self.secrets = {accessor: _token() for accessor in accessors}

    def address(self, last: int, port: int) -> str:
        return f"{self.scheme}://{self.prefix}{last}:{port}"

    def consul_address(self, last: int = 1) -> str:
        return self.address(last, 8501 if self.scheme == "https" else 8500)

    def consul(self, token: str | None = None) -> Api:
        headers = {"X-Consul-Token": token} if token else {}
        return Api(self.consul_address(), headers, certificate=self.operators_certificate)

    def nomad(self, token: str | None = None) -> Api:
        headers = {"X-Nomad-Token": token} if token else {}
        return Api(self.address(1, 4646), headers, certificate=self.operators_certificate)

    @property
    def operators_certificate(self) -> Path:
        return self.run_folder / "operator"

    def golden(self, name: str) -> JsonObject:
        """A document of the renderers, on this cluster's network."""
        text = (self.documents / f"{name}.json").read_text().replace("127.77.0.", self.prefix)
        document: JsonObject = json.loads(text)
        return document

    def up(self) -> None:
        if self.scheme == "https":
            self.apply_operator()
        self.apply("agents.py", self.golden("server-0-consul"), self.agent_secrets("server-0"))
        self.apply_permissions()
        self.apply("agents.py", self.golden("server-0-nomad"), self.agent_secrets("server-0"))
        self.apply_bootstrap()
        self.apply("consul_acl.py", self.golden("consul-workloads"), self.operator("consul"))
        self.apply_node()

    def apply_node(self) -> None:
        self.apply("agents.py", self.golden("cpu-0"), self.agent_secrets("cpu-0"))
        self.apply("nomad_nodes.py", self.pool_gate(), self.operator("nomad"))

    def apply_operator(self) -> None:
        certificate = self.authority.issue("operator")
        secrets = {"schema_version": 1, "certificate": certificate}
        self.apply("operator_access.py", {"schema_version": 1}, secrets)

    def pool_gate(self) -> JsonObject:
        """The pool's gate for its only node."""
        document = self.golden("pool-cpu-ready")
        return document | ({"nodes": ["cpu-0"]} if "nodes" in document else {"count": 1})

    def apply_permissions(self) -> str:
        secrets = {**self.operator("consul"), "tokens": self.secrets}
        return self.apply("consul_acl.py", self.golden("consul-acl"), secrets)

    def apply_bootstrap(self) -> str:
        address = self.address(1, 4646)
        document = {"schema_version": 1, "address": address, "leader_timeout_s": 60}
        return self.apply("nomad_acl.py", document, self.operator("nomad"))

    def operator(self, system: str) -> JsonObject:
        secrets = {"schema_version": 1, "management_token": self.management[system]}
        authority = {"authority": self.authority.pem} if self.scheme == "https" else {}
        return secrets | (authority if system == "consul" else {})

    def agent_secrets(self, host: str) -> JsonObject:
        agent, nomad = self.host_token("consul", host), self.host_token("nomad", host)
        tokens = {"agent": agent, "config_file_service_registration": agent}
        if host == "server-0":
            tokens["initial_management"] = self.management["consul"]
        secrets: JsonObject = {
            "consul": {"encrypt": self.keys["consul"], "acl": {"tokens": tokens}},
            "nomad": {"consul": {"token": nomad}},
        }
        if host == "server-0":
            secrets["nomad"]["server"] = {"encrypt": self.keys["nomad"]}
            secrets["workload-keys"] = {}
        if self.scheme == "http":
            return {"schema_version": 1, "agents": secrets}
        return {"schema_version": 1, "agents": secrets, "certificate": self.certificate(host)}

    def certificate(self, host: str) -> dict[str, str]:
        """The host's certificate, the same each time."""
        if host not in self._certificates:
            names, last = (SERVER, 1) if host == "server-0" else (NODE, 16)
            addresses = (f"{self.prefix}{last}", "127.0.0.1")
            self._certificates[host] = self.authority.issue(host, names, addresses)
        return self._certificates[host]

    def host_token(self, system: str, host: str) -> str:
        named = f"slipway: {system} agent {host}"
        tokens = self.golden("consul-acl")["tokens"]
        accessor = next(t["AccessorID"] for t in tokens if t["Description"] == named)
        return self.secrets[accessor]

    def apply(self, script: str, document: JsonObject, secrets: JsonObject) -> str:
        return self.succeed(script, "apply", document=document, secrets=secrets)

    def succeed(self, script: str, action: str, **given: Any) -> str:
        done = self.program(script, action, **given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def program(
        self,
        script: str,
        *arguments: str,
        document: JsonObject | None = None,
        secrets: JsonObject | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(script, *arguments),
            input=json.dumps(secrets) if secrets else "",
            env=self.variables(document),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def started(self, script: str, action: str, document: JsonObject) -> subprocess.Popen[bytes]:
        """The program while it runs."""
        return subprocess.Popen(
            self._command(script, action),
            env=self.variables(document),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def script(self, name: str) -> Path:
        """Of the programs on hosts, or of those beside the operator."""
        on_host = self.services / "host" / name
        return on_host if on_host.is_file() else self.services / "operator" / name

    def _command(self, script: str, *arguments: str) -> list[str]:
        return [*self.become, str(self.python), "-B", str(self.script(script)), *arguments]

    def variables(self, document: JsonObject | None) -> dict[str, str]:
        folders = {
            "SLIPWAY_RUN": str(self.run_folder),
            "SLIPWAY_CACHE": str(self.root / "cache"),
            "SLIPWAY_SCRATCH": str(self.scratch),
        }
        given = {} if document is None else {"SLIPWAY_DOCUMENT": json.dumps(document)}
        return {**os.environ, **folders, **given, "A_PASSPHRASE": "not for tasks"}

    def status(self) -> dict[str, JsonObject]:
        """Program name -> record of `agents.py status`."""
        records = json.loads(self.program("agents.py", "status", "--json").stdout)
        return {f"{record['host']}-{record['agent']}": record for record in records}

    def pids(self) -> dict[str, int]:
        return {program: record["pid"] for program, record in self.status().items()}

    def supervisor_pid(self) -> int:
        return int((self.run_folder / "supervisor/supervisord.pid").read_text())


Kind = TypeVar("Kind", bound=Cluster)


@contextmanager
def running_cluster(
    prefix: str,
    owner: int | None = None,
    documents: Path = GOLDEN,
    kind: type[Kind] = Cluster,  # type: ignore[assignment]
) -> Iterator[Kind]:
    """A cluster that is up, in a folder of its own with a space in its path; ended afterwards.

    With `owner`, everything it needs lies in that folder, belongs to that user and runs as it.
    """
    root = Path(tempfile.mkdtemp(prefix="slipway-cluster-"))
    try:
        for tool, version in (("consul", "1.22.6"), ("nomad", "1.11.3")):
            folder = root / "cache/tools/bin" / f"{tool}-{version}"
            folder.mkdir(parents=True)
            _place(find(tool), folder / tool, copy=owner is not None)
        cluster = kind(root=root, prefix=prefix, documents=documents)
        if owner is not None:
            _hand_over(cluster, owner)
        _place_key_publisher(cluster)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.program("agents.py", "stop")
    finally:
        shutil.rmtree(root)


def find(tool: str) -> Path:
    """The tool in SLIPWAY_TEST_BIN, else the newest in the cache; skips where there is none."""
    if folder := os.environ.get("SLIPWAY_TEST_BIN"):
        candidates = [Path(folder) / tool]
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = Path(os.environ.get("SLIPWAY_CACHE") or caches / "slipway")
        candidates = sorted((cache / "tools" / "bin").glob(f"{tool}-[0-9]*/{tool}"), reverse=True)
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        pytest.skip(f"no {tool}: set SLIPWAY_TEST_BIN or run `slipway tools`")
    return found


def web_job(name: str) -> JsonObject:
    """A file server as a raw_exec job with one service and a task that may read Consul's catalog.

    Named `prometheus`, it gets the role of that job.
    """
    service = {
        "Name": name,
        "Provider": "consul",
        "PortLabel": "http",
        "Address": "${meta.address}",
        "Checks": [
            {
                "Name": "http",
                "Type": "http",
                "Path": "/",
                "PortLabel": "http",
                "Interval": 1_000_000_000,
                "Timeout": 60_000_000_000,
            }
        ],
    }
    server = ["-c", FILE_SERVER, "${meta.address}", "${NOMAD_PORT_http}"]
    task = {
        "Name": "web",
        "Driver": "raw_exec",
        "Config": {"command": "/usr/bin/env", "args": ["python3", *server]},
        "Consul": {},
        "Resources": {"CPU": 50, "MemoryMB": 64},
    }
    group = {
        "Name": "web",
        "Count": 1,
        "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}],
        "Services": [service],
        "Tasks": [task],
    }
    job = {
        "ID": name,
        "Name": name,
        "Type": "service",
        "Datacenters": ["dev"],
        "NodePool": "cpu",
        "TaskGroups": [group],
    }
    return {"Job": job}


def passing(consul: Api, service: str) -> list[JsonObject]:
    found: list[JsonObject] = consul.get(f"/v1/health/service/{service}?passing=1")
    return found


def wait_until_passing(consul: Api, service: str) -> JsonObject:
    def missing() -> str | None:
        try:
            return None if passing(consul, service) else "not passing"
        except ApiError as error:
            return str(error)

    wait_until(service, missing, HANG_S)
    registered: JsonObject = passing(consul, service)[0]["Service"]
    return registered


def _place_key_publisher(cluster: Cluster) -> None:
    """Its command names an environment and a bundle of the cache."""
    (publisher,) = [
        agent
        for agent in cluster.golden("server-0-nomad")["agents"]
        if agent["name"] == "workload-keys"
    ] or [None]
    if publisher is None:
        return
    cache = cluster.root / "cache"
    python, script = (
        Path(part.replace("@cache@", str(cache))) for part in publisher["command"][:2]
    )
    for folder in (python.parent, script.parent.parent):
        folder.mkdir(parents=True)
    python.symlink_to(cluster.python)
    script.parent.symlink_to(cluster.services / "host")


def _hand_over(cluster: Cluster, owner: int) -> None:
    """Copy the code and an interpreter into the cluster's folder and give it to another user."""
    base = Path("/usr/bin/python3")
    can_run = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if subprocess.run([base, "-c", can_run], check=False).returncode or not shutil.which("setpriv"):
        pytest.skip("needs setpriv, and a system interpreter of this version: other users run it")
    environment = cluster.root / "environment"
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True)
    package = Path(supervisor.__file__).parent
    site = next(environment.glob("lib/python*/site-packages"))
    for folder in (package, *package.parent.glob("supervisor-*.dist-info")):
        shutil.copytree(folder, site / folder.name)
    cluster.services = cluster.root / "services"
    for service in ("host", "operator"):
        unused = shutil.ignore_patterns("tests", "__pycache__")
        shutil.copytree(SERVICES / service, cluster.services / service, ignore=unused)
    for path in (cluster.root, *cluster.root.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    cluster.python = environment / "bin/python"
    cluster.become = ("setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--")


def _place(source: Path, target: Path, *, copy: bool) -> None:
    if copy:
        shutil.copy2(source, target)
    else:
        target.symlink_to(source)


def _token() -> str:
    return str(uuid.uuid4())


def _gossip_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()
