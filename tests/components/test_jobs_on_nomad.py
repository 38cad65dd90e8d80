"""The real Nomad and the real Autoscaler accept the jobs."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from components.autoscaling.policy import replicas_wanted_query
from components.gateway.shared_address import shared_address_job
from components.nomad.jobspec import Job, to_json
from components.snapshots.job import snapshot_job
from slipway.plan.platform import PlatformPlan, SnapshotPlan
from tests.binaries import find
from tests.components.accelerator_jobs import (
    BARE,
    IN_CONTAINERS,
    POOL,
    SHAPES,
    accelerator_job,
)
from tests.components.nomad_agent import ADDRESS, nomad_agent, running, wait_for
from tests.components.platform_jobs import NAMES, files, platform_jobs
from tests.components.platform_plan import platform_plan
from tests.components.test_public_certificate import SAMPLE
from tests.waiting import HANG_S

pytestmark = [pytest.mark.binaries]

CHECK = Path(__file__).parents[2] / "services" / "host" / "scaling_policies.py"
AUTOSCALER_ADDRESS, PROMETHEUS_ADDRESS = "127.98.0.3", "127.98.0.4"
# Nomad checks it against the tasks' kill timeouts, and drops it where there are no deployments.
TLS_JOBS = ("envoy", "xds")
DROPPED = ".Update.ProgressDeadline"


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return platform_plan()


@pytest.fixture(scope="module")
def jobs(plan: PlatformPlan) -> dict[str, Job]:
    return platform_jobs(plan)


@pytest.fixture(scope="module")
def nomad(plan: PlatformPlan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("nomad")
    pools = [*(pool.name for pool in plan.pools), POOL]
    with nomad_agent(folder, pools) as client:
        yield client


def document(job: Job) -> dict[str, Any]:
    """The job as Nomad's API takes it, the way the official plugin reads a jobspec."""
    parsed: dict[str, Any] = json.loads(to_json(job))
    return parsed


def validate(nomad: httpx.Client, submitted: dict[str, Any]) -> Any:
    return nomad.post("/v1/validate/job", json=submitted).raise_for_status().json()


def planned(nomad: httpx.Client, submitted: dict[str, Any]) -> list[str]:
    """The names of the fields that Nomad would change.

    Not the types of the objects they are in: Nomad calls every `Scaling` block edited, with no
    field that differs, because the stored one has indexes.
    """
    path = f"/v1/job/{submitted['Job']['ID']}/plan"
    response = nomad.post(path, json=submitted | {"Diff": True})
    return list(_changed_fields(response.raise_for_status().json()["Diff"]))


def _changed_fields(difference: dict[str, Any]) -> Iterator[str]:
    for field in difference.get("Fields") or []:
        if field["Type"] != "None":
            yield field["Name"]
    for parts in ("Objects", "TaskGroups", "Tasks"):
        for part in difference.get(parts) or []:
            yield from _changed_fields(part)


def register(nomad: httpx.Client, submitted: dict[str, Any]) -> Any:
    answer = nomad.post("/v1/jobs", json=submitted).raise_for_status().json()
    assert not answer["Warnings"], answer["Warnings"]
    return nomad.get(f"/v1/job/{submitted['Job']['ID']}").raise_for_status().json()


def jobs_of_hosts(plan: PlatformPlan) -> list[Job]:
    """Those that only machines of their own have, and those of a gateway that speaks TLS."""
    gateway = dataclasses.replace(plan.gateway, shared_address="127.77.0.99")
    pool, address = plan.monitoring.pool, plan.monitoring.prometheus.host
    snapshots = SnapshotPlan(pool=pool, node="edge-0", address=address, every_h=1, keep=24)
    plan = dataclasses.replace(plan, gateway=gateway, snapshots=snapshots)
    with_tls = platform_jobs(platform_plan(certificate=SAMPLE))
    gateway_jobs = [dataclasses.replace(with_tls[name], id=f"{name}-tls") for name in TLS_JOBS]
    addresses = [shared_address_job(plan, envoy) for envoy in plan.gateway.envoys]
    return [*addresses, snapshot_job(plan, snapshots), *gateway_jobs]


def test_nomad_takes_the_jobs_of_hosts_as_they_are_meant(
    nomad: httpx.Client, plan: PlatformPlan
) -> None:
    for job in jobs_of_hosts(plan):
        submitted = document(job)
        assert not validate(nomad, submitted).get("ValidationErrors"), job.id
        stored = register(nomad, submitted)
        wrong = [
            each for each in misunderstood(submitted["Job"], stored) if not each.startswith(DROPPED)
        ]
        assert not wrong, job.id
        assert planned(nomad, submitted) == [], job.id


def misunderstood(submitted: Any, stored: Any, path: str = "") -> list[str]:
    """Where what Nomad stored is not what it was given: unknown keys are ignored in silence."""
    if isinstance(submitted, dict):
        held = stored if isinstance(stored, dict) else {}
        return [
            wrong
            for key, value in submitted.items()
            for wrong in (
                misunderstood(value, held[key], f"{path}.{key}")
                if key in held
                else [f"{path}.{key} is unknown"]
            )
        ]
    if isinstance(submitted, list):
        if not isinstance(stored, list) or len(stored) != len(submitted):
            return [f"{path}: {submitted!r} became {stored!r}"]
        return [
            wrong
            for index, (one, other) in enumerate(zip(submitted, stored, strict=True))
            for wrong in misunderstood(one, other, f"{path}[{index}]")
        ]
    return [] if submitted == stored else [f"{path}: {submitted!r} became {stored!r}"]


@pytest.mark.parametrize("name", NAMES)
def test_nomad_finds_every_job_valid(nomad: httpx.Client, jobs: dict[str, Job], name: str) -> None:
    answer = validate(nomad, document(jobs[name]))
    assert answer["ValidationErrors"] is None
    assert not answer["Error"]
    assert not answer["Warnings"]
    assert answer["DriverConfigValidated"] is True


@pytest.mark.parametrize("runtime", [BARE, IN_CONTAINERS], ids=["bare", "container"])
@pytest.mark.parametrize(("vendor", "count"), SHAPES)
def test_nomad_finds_the_jobs_on_accelerators_valid(
    nomad: httpx.Client, vendor: str, count: int, runtime: Mapping[str, str]
) -> None:
    answer = validate(nomad, document(accelerator_job(vendor, count, runtime)))
    assert answer["ValidationErrors"] is None
    assert not answer["Error"]
    assert not answer["Warnings"]


def test_nomad_wants_the_progress_deadline_that_it_drops(
    nomad: httpx.Client, jobs: dict[str, Job]
) -> None:
    without = document(jobs["model-smollm2"])
    del without["Job"]["Update"]["ProgressDeadline"]
    assert "ProgressDeadline" in validate(nomad, without)["Error"]


def test_a_changed_envelope_would_be_seen(nomad: httpx.Client, jobs: dict[str, Job]) -> None:
    changed = document(jobs["model-sim"])
    register(nomad, changed)
    changed["Job"]["TaskGroups"][0]["Scaling"]["Max"] = 7
    assert planned(nomad, changed) == ["Max"]


def test_nomad_would_refuse_a_wrong_job(nomad: httpx.Client, jobs: dict[str, Job]) -> None:
    wrong = document(jobs["xds"])
    wrong["Job"]["TaskGroups"][0]["Services"][0]["Checks"][0]["Interval"] = 1
    assert "interval" in validate(nomad, wrong)["Error"]


@pytest.mark.parametrize("name", NAMES)
def test_a_registered_job_has_no_difference_from_its_document(
    nomad: httpx.Client, jobs: dict[str, Job], name: str
) -> None:
    register(nomad, document(jobs[name]))
    assert planned(nomad, document(jobs[name])) == []


@pytest.mark.parametrize("name", NAMES)
def test_nomad_understands_every_key_of_a_job(
    nomad: httpx.Client, jobs: dict[str, Job], name: str
) -> None:
    submitted = document(jobs[name])
    (dropped,) = misunderstood(submitted["Job"], register(nomad, submitted))
    assert dropped.startswith(DROPPED)


def test_a_change_and_a_misspelt_key_would_be_seen(
    nomad: httpx.Client, jobs: dict[str, Job]
) -> None:
    submitted = document(jobs["xds"])
    stored = register(nomad, submitted)
    del submitted["Job"]["Update"]["ProgressDeadline"]
    changed = copy.deepcopy(submitted)
    changed["Job"]["TaskGroups"][0]["ShutdownPause"] = 1
    changed["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"]["CPU"] = 101
    assert planned(nomad, changed) == ["CPU"]
    assert misunderstood(changed["Job"], stored) == [
        ".TaskGroups[0].Tasks[0].Resources.CPU: 101 became 100",
        ".TaskGroups[0].ShutdownPause is unknown",
    ]


def test_a_models_job_can_be_scaled_inside_its_envelope_only(
    nomad: httpx.Client, jobs: dict[str, Job]
) -> None:
    job = jobs["model-sim"]
    register(nomad, document(job))

    def scale(count: int) -> httpx.Response:
        target = {"Group": job.group.name}
        return nomad.post(f"/v1/job/{job.id}/scale", json={"Count": count, "Target": target})

    assert scale(2).is_success
    assert not scale(3).is_success
    kept = nomad.post("/v1/jobs", json=document(job) | {"PreserveCounts": True})
    assert kept.is_success
    assert nomad.get(f"/v1/job/{job.id}").json()["TaskGroups"][0]["Count"] == 2


def test_the_autoscaler_scales_a_model_to_the_answer_of_its_query(
    nomad: httpx.Client, plan: PlatformPlan, jobs: dict[str, Job], tmp_path: Path
) -> None:
    job = jobs["model-smollm2"]
    register(nomad, document(job))
    with standing_in_for_prometheus(replicas=2) as (prometheus, queries):
        configuration = json.loads(files(jobs["nomad-autoscaler"])["local/autoscaler.json"])
        configuration["http"] = {"bind_address": AUTOSCALER_ADDRESS, "bind_port": "20081"}
        configuration["apm"]["prometheus"]["config"]["address"] = prometheus
        path, log = tmp_path / "autoscaler.json", tmp_path / "autoscaler.log"
        path.write_text(json.dumps(configuration))
        command = [str(find("nomad-autoscaler")), "agent", "-config", str(path)]
        base = f"http://{AUTOSCALER_ADDRESS}:{configuration['http']['bind_port']}"
        with (
            running(command, log, NOMAD_ADDR=f"http://{ADDRESS}:4646") as process,
            httpx.Client(base_url=base, trust_env=False, timeout=HANG_S) as autoscaler,
        ):
            wait_for(autoscaler, "/v1/health", process, log)
            assert scaled(nomad, job, count=2), log.read_text()[-3000:]
            metrics = autoscaler.get("/v1/metrics", params={"format": "prometheus"})
            assert "nomad_autoscaler_" in metrics.text
            listed = len(nomad.get("/v1/scaling/policies").json())
            checked = subprocess.run(
                [sys.executable, CHECK, str(metrics.url)],
                env={"NOMAD_ADDR": f"http://{ADDRESS}:4646", "NOMAD_TOKEN": ""},
                capture_output=True,
                text=True,
                check=False,
            )
            assert checked.stdout == f"{listed} of {listed} policies are handled\n"
            assert checked.returncode == 0

    (model,) = [model for model in plan.models if model.stable.job_id == job.id]
    assert replicas_wanted_query(model, model.stable, plan.autoscaling) in queries
    levels = {json.loads(line)["@level"] for line in log.read_text().splitlines() if line[0] == "{"}
    assert levels == {"info"}


def scaled(nomad: httpx.Client, job: Job, *, count: int) -> bool:
    """Whether the job gets this count, told by Nomad as soon as it changes."""
    index, deadline_s = 0, time.monotonic() + HANG_S
    while time.monotonic() < deadline_s:
        response = nomad.get(f"/v1/job/{job.id}", params={"index": index, "wait": "5s"})
        if response.json()["TaskGroups"][0]["Count"] == count:
            return True
        index = int(response.headers["X-Nomad-Index"])
    return False


@contextmanager
def standing_in_for_prometheus(*, replicas: int) -> Iterator[tuple[str, set[str]]]:
    """(address, the queries it was asked); answers each with one series of one value."""
    queries: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            queries.update(form["query"])
            series = {"metric": {}, "values": [[float(form["end"][0]), str(replicas)]]}
            data = {"resultType": "matrix", "result": [series]}
            body = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing on standard error."""

    server = ThreadingHTTPServer((PROMETHEUS_ADDRESS, 9090), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{PROMETHEUS_ADDRESS}:9090", queries
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
