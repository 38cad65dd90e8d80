"""One host whose replicas run in containers: a real Nomad, its docker driver, Docker's daemon, and
a plugin that announces devices which a library of the tests shows. The image has the layout of
Triton's stock image, and a fake engine as its vLLM.

What the jobs lack here: their services in Consul and the proxy in front of a replica, for there is
no Consul, and the limit of locked memory, which this machine may not allow to raise.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from docker_daemon import DockerDaemon, docker_daemon
from stock_image import packed_by

from components.nomad.agent_config import docker_driver
from components.nomad.jobspec import Job, to_json
from components.serving.nomad_job import model_job
from slipway.config.artifacts import REQUIREMENTS
from slipway.plan.platform import ModelPlan, PlatformPlan
from slipway.planner.engines.vllm.release import VLLM
from stacks.planning import make_plan
from tests.components.device_hosts import (
    DeviceHost,
    announced,
    client_configuration,
    nvml_library,
    nvml_table,
    server_configuration,
)
from tests.components.nomad_agent import started_agent
from tests.unit.planner.fleets import OWNED, engine, fleet, model_file
from tests.waiting import HANG_S, until
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "services/triton_vllm"
FAKE_ENGINE = SERVICE / "tests/fake_vllm.py"
POOL, DEVICES = "own", 4
SIZE = {"memory": "8GiB", "cpu": 16}
NETWORK = "127.98.3"  # other than that of tests/components, whose Nomad may run at the same time
LOCKED_MEMORY = "ulimit"  # the key of a container that raises a limit


@dataclass(frozen=True)
class Replica:
    """An allocation whose server runs, and answers."""

    allocation: str
    container: str
    url: str
    device: str

    @property
    def name(self) -> str:
        """Of its container."""
        return f"server-{self.allocation}"


@dataclass
class ContainerHost:
    nomad: httpx.Client  # the server's API
    docker: DockerDaemon
    plan: PlatformPlan
    folder: Path
    _agent: ExitStack
    _configuration: dict[str, Any]
    _variables: Mapping[str, str]

    @property
    def model(self) -> ModelPlan:
        return self.plan.models[0]

    def submit(self, count: int) -> str:
        """The model's job; returns its ID."""
        return self._submit(self._job(self.model), count)

    def submit_planned_with(self, vllm: str) -> str:
        """The model's job, had it been planned with another engine."""
        document = {**self.model.replica.document, "container": {"vllm": vllm}}
        replica = dataclasses.replace(self.model.replica, document=document)
        job = self._job(dataclasses.replace(self.model, replica=replica))
        return self._submit(dataclasses.replace(job, id="other-engine"), 1)

    def _job(self, model: ModelPlan) -> Job:
        plan = self.plan
        return model_job(
            model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        )

    def _submit(self, job: Job, count: int) -> str:
        document = without_consul(json.loads(to_json(job)), count)
        self.nomad.post("/v1/jobs", json=document).raise_for_status()
        return job.id

    def end(self, job_id: str) -> None:
        allocations = self.nomad.get(f"/v1/job/{job_id}/allocations").json()
        folders = [self.allocations / each["ID"] for each in allocations]
        self.nomad.delete(f"/v1/job/{job_id}", params={"purge": True}).raise_for_status()

        def gone() -> bool | None:
            self.nomad.put("/v1/system/gc")
            return not any(folder.exists() for folder in folders) or None

        until(gone, "the end of its allocations")

    @property
    def allocations(self) -> Path:
        """The folder with those of allocations. What Nomad mounts there outlives its agents."""
        return self.folder / "host/data/alloc"

    def said(self, job_id: str) -> str:
        """What the job's servers have reported so far."""
        allocations = self.nomad.get(f"/v1/job/{job_id}/allocations").json()
        files = [
            self.allocations / each["ID"] / "alloc/logs/server.stdout.0" for each in allocations
        ]
        return "".join(file.read_text() for file in files if file.exists())

    def blocked(self, job_id: str) -> dict[str, int]:
        """Why Nomad could not place allocations, and on how many hosts."""
        for evaluation in self.nomad.get(f"/v1/job/{job_id}/evaluations").json():
            for failed in (evaluation.get("FailedTGAllocs") or {}).values():
                return failed["DimensionExhausted"] or failed["ConstraintFiltered"] or {}
        return {}

    def marked_processes(self) -> list[int]:
        """Those of the image's programs that run, whatever their parent."""
        script = str(self.folder / "runtime/bundles")
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if script.encode() in place.read_bytes():
                    found.append(int(place.parent.name))
        return found

    def serving(self, job_id: str, count: int) -> list[Replica]:
        """The job's replicas, once exactly so many are ready."""

        def ready() -> list[Replica] | None:
            allocations = self.nomad.get(f"/v1/job/{job_id}/allocations").json()
            up = [each["ID"] for each in allocations if _server_runs(each)]
            found = [replica for each in up if (replica := self._replica(each)) is not None]
            return found if len(found) == len(up) == count else None

        return until(ready, f"{count} replicas that answer", pause_s=0.2)

    def containers(self) -> dict[str, str]:
        """All, running or not: name to ID."""
        listed = self.docker.client("ps", "--all", "--no-trunc", "--format={{.Names}} {{.ID}}")
        return dict(line.split() for line in listed.splitlines())

    def _replica(self, allocation_id: str) -> Replica | None:
        allocation = self.nomad.get(f"/v1/allocation/{allocation_id}").json()
        resources = allocation["AllocatedResources"]
        ports = {each["Label"]: each["Value"] for each in resources["Shared"]["Ports"]}
        (devices,) = resources["Tasks"]["server"]["Devices"]
        url = f"http://127.0.0.1:{ports['openai']}"
        container = self.containers().get(f"server-{allocation_id}")
        triton = f"http://127.0.0.1:{ports['http']}/v2/models/{self.model.name}/ready"
        if container is None or not _answers(triton):
            return None
        return Replica(allocation_id, container, url, devices["DeviceIDs"][0])

    def start_agent(self) -> None:
        agent = started_agent(
            self.folder / "host", f"{NETWORK}.16", self._configuration, **self._variables
        )
        self._agent.enter_context(agent)

    def restart_agent(self) -> None:
        """Nomad's client and its plugins, but none of its tasks."""
        self._agent.close()
        self.start_agent()


def _server_runs(allocation: dict[str, Any]) -> bool:
    task = (allocation["TaskStates"] or {}).get("server", {"State": "pending"})
    return allocation["ClientStatus"] == "running" and task["State"] == "running"


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=HANG_S).status_code == 200
    except httpx.TransportError:
        return False


def without_consul(document: dict[str, Any], count: int) -> dict[str, Any]:
    (group,) = document["Job"]["TaskGroups"]
    group["Count"] = count
    del group["Services"], group["Scaling"]
    group["ShutdownDelay"] = 0
    group["Tasks"] = [task for task in group["Tasks"] if task["Driver"] == "docker"]
    for task in group["Tasks"]:
        del task["Config"][LOCKED_MEMORY]
        task["Resources"] |= {"CPU": 100, "MemoryMB": 256}
    return document


@contextmanager
def container_host(folder: Path, programs: Path) -> Iterator[ContainerHost]:
    """`programs` are Docker's. The host has the weights of its model already."""
    with ExitStack() as stack:
        docker = stack.enter_context(docker_daemon(programs, folder / "docker"))
        plan = make_plan(_fleet(_image(docker, folder)))
        runtime = _runtime_folder(folder, plan.models[0])
        host = DeviceHost("gpu-0", POOL, DEVICES, 8192, 16000)
        place = folder / "host"
        nvml_table(place, host, 0)
        library = nvml_library(folder)
        server = started_agent(
            folder / "server", f"{NETWORK}.1", server_configuration(plan.datacenter)
        )
        nomad = stack.enter_context(server)
        made = ContainerHost(
            nomad,
            docker,
            plan,
            folder,
            stack.enter_context(ExitStack()),
            _client(host, place, plan, docker, runtime),
            {"LD_LIBRARY_PATH": str(library), "NVML_TABLE": str(place)},
        )
        made.start_agent()
        until(lambda: announced(nomad, (host,)) or None, "the host and its devices")
        yield made
        for job in nomad.get("/v1/jobs").json():
            made.end(job["ID"])


def _fleet(image: str) -> Any:
    weights = {"path": "/srv/models/chat", "revision": "1"}
    model = model_file(engine=engine(), parallel={"tensor": 1}, source=weights)
    containers = {"runtime": "container", "image": image, "image_archive": "images/triton.tar"}
    return fleet(model, pools={POOL: OWNED | SIZE | containers})


def _image(docker: DockerDaemon, folder: Path) -> str:
    archive = folder / "image.tar"
    environment = environment_folder("triton", ROOT / REQUIREMENTS["triton"], default_cache())
    image = packed_by(environment / "bin/python", FAKE_ENGINE, VLLM, archive)
    docker.client("load", f"--input={archive}")
    archive.unlink()
    return image


def _runtime_folder(folder: Path, model: ModelPlan) -> Path:
    """As the delivery leaves it: with the replicas' code, and with the weights that were prepared
    beside the operator."""
    runtime = folder / "runtime"
    replica = model.replica
    assert replica.weights is not None
    ignored = shutil.ignore_patterns("tests", "__pycache__")
    shutil.copytree(SERVICE, runtime / "bundles" / replica.bundle, ignore=ignored)
    source = folder / "source"
    source.mkdir()
    for name in ("config.json", "model.safetensors"):
        (source / name).write_text("{}")
    document = json.loads(json.dumps(replica.weights.document))
    planned = document["source"]["path"]
    prepared = folder / "weights.json"
    prepared.write_text(
        json.dumps({**document, "source": document["source"] | {"path": str(source)}})
    )
    environment = environment_folder("triton", ROOT / REQUIREMENTS["triton"], default_cache())
    subprocess.run(
        [str(environment / "bin/python"), str(SERVICE / "weights.py"), "--document", str(prepared)],
        env=os.environ | {"SLIPWAY_RUNTIME": str(runtime)},
        check=True,
        capture_output=True,
    )
    manifest = runtime / replica.weights.directory / "slipway-manifest.json"
    manifest.write_text(manifest.read_text().replace(str(source), planned))
    return runtime


def _client(
    host: DeviceHost, place: Path, plan: PlatformPlan, docker: DockerDaemon, runtime: Path
) -> dict[str, Any]:
    configuration = client_configuration(host, place, plan.datacenter, server=f"{NETWORK}.1")
    client = configuration["client"]
    client["options"]["driver.allowlist"] = "raw_exec,docker"
    client["meta"] = {"address": f"{NETWORK}.16", "runtime": str(runtime)}
    client["max_kill_timeout"] = "24h"
    (driver,) = docker_driver(plan.pool(POOL))
    driver["docker"]["config"][0]["endpoint"] = f"unix://{docker.socket}"
    configuration["plugin"].append(driver)
    return configuration
