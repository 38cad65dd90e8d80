"""The jobs and the files inside them, whole, and what holds for all of them.

SLIPWAY_UPDATE_GOLDEN=1 renews tests/golden/; read the difference before you commit it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import yaml

from cli.clusters.measured import REPLICAS
from components.autoscaling.nomad import POLICY_RULES
from components.envoy.sidecar import MEBIBYTE
from components.gateway.jobs import xds_job
from components.node_pool.node_document import drain_timeout_s
from components.nomad.agent_config import MAX_KILL_TIMEOUT_S
from components.nomad.jobspec import LEFT_DELIMITER, HttpCheck, Job, ScriptCheck, to_json
from components.serving.nomad_job import model_job, replica_content
from slipway.config.model import TimeoutSettings
from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from slipway.planner.fleet.packing import PLATFORM_JOBS
from stacks.planning import make_plan
from tests.components.golden import assert_golden, assert_golden_text
from tests.components.platform_jobs import NAMES, files, platform_jobs
from tests.components.platform_plan import platform_plan
from tests.unit.plan.samples import ROOT
from tests.unit.planner.fleets import engine, fleet, model_file

# Documents inside a job, as files that can be read.
EMBEDDED = [
    ("envoy", "local/authority.json"),
    ("envoy", "local/certificate.json"),
    ("envoy", "local/envoy.json"),
    ("model-sim", "local/replica.json"),
    ("model-smollm2", "local/replica.json"),
    ("model-smollm2", "local/weights.json"),
    ("nomad-autoscaler", "local/authority.json"),
    ("nomad-autoscaler", "local/autoscaler.json"),
    ("nomad-autoscaler", "local/certificate.json"),
    ("nomad-autoscaler", "local/envoy.json"),
    ("prometheus", "local/gateway_alerts.yml"),
    ("prometheus", "local/prometheus.yml"),
    ("prometheus", "local/web.yml"),
]

# Nomad fills in the ports of loopback and the password between the autoscaler and its proxy.
FILLED_IN = [
    ("nomad-autoscaler", "local/autoscaler.json"),
    ("nomad-autoscaler", "local/envoy.json"),
]


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return platform_plan()


@pytest.fixture(scope="module")
def jobs(plan: PlatformPlan) -> dict[str, Job]:
    return platform_jobs(plan)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_is_rendered_whole(jobs: dict[str, Job], name: str) -> None:
    assert_golden(f"jobs/{name}.json", json.loads(to_json(jobs[name])))


@pytest.mark.parametrize(("name", "path"), EMBEDDED)
def test_a_file_of_a_job_is_rendered_whole(jobs: dict[str, Job], name: str, path: str) -> None:
    golden = f"files/{name}-{path.removeprefix('local/')}"
    assert_golden_text(golden, files(jobs[name])[path])


def test_routes_are_rendered_whole(plan: PlatformPlan) -> None:
    assert_golden("files/routes.json", {model.name: model.route for model in plan.models})


def test_a_model_whose_replicas_are_exchanged_registers_them_for_all_its_specs() -> None:
    plan = platform_plan(in_turn=["sim"])
    (model,) = [model for model in plan.models if model.name == "sim"]
    job = platform_jobs(plan)["model-sim"]
    assert_golden("jobs/model-sim-in-turn.json", json.loads(to_json(job)))
    assert [backend["service"] for backend in model.route["backends"]] == ["model-sim-all"]
    assert {service.name for service in job.group.services} == {
        f"model-sim-all-{protocol}" for protocol in ("openai", "grpc", "triton")
    }


def test_only_a_release_other_than_stable_is_named_in_its_job(plan: PlatformPlan) -> None:
    """The gate of the stable release takes a job without a name for one of its own."""
    (model,) = [model for model in plan.models if model.name == "sim"]
    canary = replace(model.stable, name="canary")
    meta = [
        model_job(model, release, datacenter=plan.datacenter, autoscaling=plan.autoscaling).meta
        for release in (model.stable, canary)
    ]
    assert [each.get("slipway_release") for each in meta] == [None, "canary"]


def test_a_job_on_accelerators_asks_for_the_devices_that_the_plan_shows() -> None:
    plan = make_plan(load_inputs(ROOT, "metal"))
    asked = {name: _resources(job)["server"].get("Devices") for name, job in _models(plan).items()}
    assert asked == {
        model.name: [{"Name": f"{model.accelerator_vendor}/gpu", "Count": model.layout.devices}]
        for model in plan.models
    }
    assert {devices[0]["Name"] for devices in asked.values()} == {"nvidia/gpu", "amd/gpu"}


def test_only_the_server_takes_devices(plan: PlatformPlan) -> None:
    on_accelerators = _models(make_plan(load_inputs(ROOT, "metal"))).values()
    for job in (*on_accelerators, *_models(plan).values()):
        others = {name: each for name, each in _resources(job).items() if name != "server"}
        assert not any("Devices" in each for each in others.values())
    assert all("Devices" not in _resources(job)["server"] for job in _models(plan).values())


def test_a_replica_on_hosts_listens_on_loopback_behind_its_proxy() -> None:
    plan = make_plan(load_inputs(ROOT, "metal"))
    (model,) = [model for model in plan.models if model.name == "llama-3-1-8b"]
    job = _models(plan)["llama-3-1-8b"]
    proxy, *others = job.group.tasks
    assert proxy.runs_beside_the_others
    assert {task.env["SLIPWAY_ADDRESS"] for task in others} == {"127.0.0.1"}
    checks = [check for service in job.group.services for check in service.checks]
    assert {check.protocol for check in checks if isinstance(check, HttpCheck)} == {"https"}
    assert {
        service.meta.get("metrics_scheme") for service in job.group.services if service.tags
    } == {"https"}
    assert [backend["server_name"] for backend in model.route["backends"]] == [plan.peers.replica]
    for file in proxy.files:
        name = file.path.removeprefix("local/")
        assert_golden_text(f"files/tls-proxy-{name}", file.content)


def test_on_one_machine_a_replica_has_no_proxy(plan: PlatformPlan) -> None:
    for name, job in _models(plan).items():
        assert "tls-proxy" not in [task.name for task in job.group.tasks], name
        checks = [check for service in job.group.services for check in service.checks]
        assert {check.protocol for check in checks if isinstance(check, HttpCheck)} == {"http"}
    for model in plan.models:
        assert not [each for each in model.route["backends"] if "server_name" in each]


def _of_two() -> Job:
    file = model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 8, "pipeline": 2})
    (job,) = _models(make_plan(fleet(file))).values()
    return job


def test_a_replica_over_two_nodes_is_a_group_of_two_allocations_on_distinct_hosts() -> None:
    group = _of_two().render()["Job"]["TaskGroups"][0]
    plan = make_plan(
        fleet(model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 8, "pipeline": 2}))
    )
    scaling = plan.models[0].scaling
    assert group["Count"] == 2 * scaling.min_replicas
    assert (group["Scaling"]["Min"], group["Scaling"]["Max"]) == (
        2 * scaling.min_replicas,
        2 * scaling.max_replicas,
    )
    assert {"Operand": "distinct_hosts", "RTarget": "true"} in group["Constraints"]
    (check,) = group["Scaling"]["Policy"]["check"][0]["inflight"]
    assert "(2 * ceil(" in check["query"]


def test_only_the_first_of_a_group_registers_the_model() -> None:
    group = _of_two().render()["Job"]["TaskGroups"][0]
    (member,) = group["Services"]
    assert member["Name"].endswith("-member")
    tasks = {task["Name"]: task for task in group["Tasks"]}
    front = tasks["front"]
    assert "NOMAD_ALLOC_INDEX % 2" in front["Config"]["args"][-1]
    assert {service["Name"].rpartition("-")[2] for service in front["Services"]} == {
        "openai",
        "grpc",
        "triton",
    }
    assert not any("Services" in task for name, task in tasks.items() if name != "front")
    # Its services leave Consul before the server is asked to end.
    assert tasks["server"]["ShutdownDelay"] == 5_000_000_000


def test_a_drain_waits_for_checks_only_where_every_allocation_registers_them(
    plan: PlatformPlan,
) -> None:
    alone = [job.render()["Job"]["TaskGroups"][0] for job in _models(plan).values()]
    assert {group["Migrate"]["HealthCheck"] for group in alone} == {"checks"}
    of_two = _of_two().render()["Job"]["TaskGroups"][0]
    assert of_two["Migrate"]["HealthCheck"] == "task_states"


def test_members_find_each_other_by_a_file_that_nomad_keeps() -> None:
    group = _of_two().render()["Job"]["TaskGroups"][0]
    server = next(task for task in group["Tasks"] if task["Name"] == "server")
    (file,) = (each for each in server["Templates"] if each["DestPath"] == "local/members.json")
    assert f'service "{group["Services"][0]["Name"]}"' in file["EmbeddedTmpl"]
    assert "Consul" in server
    assert server["Env"]["SLIPWAY_MEMBERS"] == "local/members.json"
    assert group["RestartPolicy"]["Mode"] == "fail"


def _models(plan: PlatformPlan) -> dict[str, Job]:
    return {
        model.name: model_job(
            model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        )
        for model in plan.models
    }


def _resources(job: Job) -> dict[str, dict[str, Any]]:
    """By task."""
    return {task.name: task.render()["Resources"] for task in job.group.tasks}


def test_these_are_all_the_jobs_and_all_their_files(jobs: dict[str, Job]) -> None:
    assert sorted(jobs) == sorted(NAMES)
    assert {(name, path) for name, job in jobs.items() for path in files(job)} == set(EMBEDDED)


@pytest.mark.parametrize(("name", "path"), EMBEDDED)
def test_a_file_has_sorted_keys_and_ends_with_a_newline(
    jobs: dict[str, Job], name: str, path: str
) -> None:
    text = files(jobs[name])[path]
    document = yaml.safe_load(text)
    if path.endswith(".json"):
        assert text == json.dumps(document, indent=2, sort_keys=True) + "\n"
    else:
        assert text == yaml.safe_dump(document, sort_keys=True)


def test_rendering_twice_gives_the_same_bytes(jobs: dict[str, Job]) -> None:
    again = platform_jobs(platform_plan())
    assert {name: to_json(job) for name, job in again.items()} == {
        name: to_json(job) for name, job in jobs.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_nothing_that_nomad_would_fill_in(jobs: dict[str, Job], name: str) -> None:
    for path, content in files(jobs[name]).items():
        if (name, path) not in FILLED_IN:
            assert LEFT_DELIMITER not in content


def test_the_autoscaler_and_its_proxy_share_two_ports_and_a_password(jobs: dict[str, Job]) -> None:
    job = jobs["nomad-autoscaler"]
    assert {label for label, number in job.group.ports.items() if number is None} == {
        "autoscaler",
        "prometheus",
    }
    shared = [
        *(f"env `NOMAD_PORT_{label}`" for label in ("autoscaler", "prometheus")),
        "nomadVar `nomad/jobs/nomad-autoscaler`",
    ]
    for name, path in FILLED_IN:
        content = files(jobs[name])[path]
        assert [text for text in shared if text not in content] == [], path


@pytest.mark.parametrize("name", NAMES)
def test_what_runs_comes_from_the_nodes_runtime_folder(jobs: dict[str, Job], name: str) -> None:
    for task in jobs[name].group.tasks:
        assert re.fullmatch(r"\$\{meta\.runtime\}/(tools/bin|envs)/[\w.-]+/.+", task.command)


@pytest.mark.parametrize(("name", "schema"), [("replica", "replica"), ("weights", "weights")])
def test_a_replicas_documents_follow_their_schemas(
    jobs: dict[str, Job], name: str, schema: str
) -> None:
    validator = jsonschema.Draft202012Validator(_schema(schema))
    documents = [
        json.loads(content)
        for job in jobs.values()
        for path, content in files(job).items()
        if path == f"local/{name}.json"
    ]
    assert documents
    for document in documents:
        validator.validate(document)


def test_routes_follow_their_schema_and_name_services_that_the_jobs_register(
    plan: PlatformPlan, jobs: dict[str, Job]
) -> None:
    validator = jsonschema.Draft202012Validator(_schema("route"))
    registered = {service.name for job in jobs.values() for service in job.group.services}
    for model in plan.models:
        validator.validate(dict(model.route))
        for backend in model.route["backends"]:
            assert {f"{backend['service']}-openai", f"{backend['service']}-grpc"} <= registered


def _schema(name: str) -> Any:
    return json.loads((ROOT / f"schemas/{name}.schema.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_ports_are_bound_to_the_nodes_own_address(jobs: dict[str, Job], name: str) -> None:
    """A job never listens on every interface: its address is its node's."""
    assert "0.0.0.0" not in to_json(jobs[name])
    assert "127.0.0.1" not in to_json(jobs[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_job_drains_before_nomad_loses_its_patience(jobs: dict[str, Job], name: str) -> None:
    job = jobs[name]
    for task in job.group.tasks:
        assert job.progress_deadline_s > task.kill_timeout_s
    if name.startswith("model-"):
        replica = json.loads(files(job)["local/replica.json"])
        (server,) = [task for task in job.group.tasks if task.name == "server"]
        assert server.kill_timeout_s > replica["drain_timeout_s"]
        assert job.group.shutdown_delay_s > 0


def test_a_replacement_of_a_drained_replica_has_the_time_to_load(plan: PlatformPlan) -> None:
    model = replace(plan.models[0], replica=replace(plan.models[0].replica, load_timeout_s=1800))
    job = model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
    assert job.group.render()["Migrate"]["HealthyDeadline"] > 1800 * 10**9
    assert "Migrate" not in replica_content(model)  # running replicas stay


def test_a_node_has_the_time_to_hand_over_all_of_its_replicas(plan: PlatformPlan) -> None:
    model = plan.models[0]
    (pool,) = [pool for pool in plan.pools if pool.name == model.pool]

    def moves(replicas: int, load_s: int) -> int:
        scaling = replace(model.stable.scaling, max_replicas=replicas)
        changed = replace(
            model,
            releases=(replace(model.stable, scaling=scaling),),
            replica=replace(model.replica, load_timeout_s=load_s),
        )
        return drain_timeout_s(replace(plan, models=(changed,)), replace(pool, memory_bytes=0))

    assert moves(1, 600) == 3600
    assert moves(4, 1800) == 4 * 3600
    assert moves(8, 1800) == 8 * 3600


def test_nomad_lets_a_task_take_as_long_as_the_longest_drain_that_a_model_may_ask_for(
    plan: PlatformPlan,
) -> None:
    longest = TimeoutSettings.model_json_schema()["properties"]["drain_s"]["maximum"]
    model = plan.models[0]
    model = replace(model, replica=replace(model.replica, drain_timeout_s=longest))
    job = model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
    assert max(task.kill_timeout_s for task in job.group.tasks) == MAX_KILL_TIMEOUT_S


@pytest.mark.parametrize(
    ("protocol", "registered"),
    [("http", ["openai", "triton"]), ("grpc", ["grpc", "engine", "triton"])],
)
def test_a_model_that_speaks_one_protocol_registers_it_alone_and_a_check_restarts_its_replicas(
    plan: PlatformPlan, protocol: str, registered: list[str]
) -> None:
    model = replace(plan.models[0], protocols=(protocol,))
    job = model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
    names = [service.name.rpartition("-")[2] for service in job.group.services]
    assert names == registered
    (restart,) = [check.restart for service in job.group.services for check in service.checks]
    assert restart is not None


@pytest.mark.parametrize("protocols", [("http", "grpc"), ("http",), ("grpc",)])
def test_the_engine_of_a_replica_is_scraped_and_counted_once_whatever_clients_speak(
    plan: PlatformPlan, protocols: tuple[str, ...]
) -> None:
    model = replace(plan.models[0], protocols=protocols)
    job = model_job(model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
    scraped = [service for service in job.group.services if "metrics" in service.tags]
    (counted,) = re.findall('service=~"(.+?)"', REPLICAS)
    (engine,) = [service for service in scraped if re.fullmatch(counted, service.name)]
    assert engine.port == "openai"
    assert engine.meta["metrics_path"] == "/metrics"
    assert engine.meta["model"] == model.name
    assert {service.port for service in scraped} == {"openai", "metrics"}


def test_the_program_that_prepares_weights_is_the_one_that_the_plan_names(
    plan: PlatformPlan,
) -> None:
    (model,) = [model for model in plan.models if model.replica.weights is not None]
    assert model.replica.weights is not None
    weights = replace(model.replica.weights, python="triton", entrypoint="load.py")
    changed = replace(model, replica=replace(model.replica, weights=weights))
    job = model_job(changed, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling)
    task = next(task for task in job.group.tasks if task.name == "weights")
    assert task.command.endswith(f"/{model.replica.environments['triton']}/bin/python")
    assert task.args[0].endswith(f"/{model.replica.bundle}/load.py")


def test_whatever_prometheus_reads_says_where_its_metrics_are(jobs: dict[str, Job]) -> None:
    tagged = [
        service
        for job in jobs.values()
        for service in job.group.services
        if "metrics" in service.tags
    ]
    assert len(tagged) == 2 * 2 + 4
    for service in tagged:
        assert service.meta["metrics_path"].startswith("/"), service.name


@pytest.mark.parametrize("name", NAMES)
def test_every_check_and_service_uses_a_port_of_its_group(jobs: dict[str, Job], name: str) -> None:
    group = jobs[name].group
    for service in group.services:
        assert service.port in group.ports
        asked = {check.port for check in service.checks if isinstance(check, HttpCheck)}
        assert asked <= set(group.ports)


def test_the_autoscalers_own_task_is_restarted_when_it_has_lost_its_policies(
    jobs: dict[str, Job],
) -> None:
    group = jobs["nomad-autoscaler"].group
    (check,) = [c for s in group.services for c in s.checks if isinstance(c, ScriptCheck)]
    _, autoscaler = group.tasks
    assert check.task == autoscaler.name
    assert check.restart is not None
    # Full strength is due a minute after a death: checks and the restart need the half of it.
    assert check.restart.after_failures * check.interval_s + check.restart.grace_s <= 30


def test_the_platforms_jobs_take_what_the_plan_reserves_for_them(jobs: dict[str, Job]) -> None:
    tasks = [t for name, job in jobs.items() if "model" not in name for t in job.group.tasks]
    assert sum(task.memory_mb for task in tasks) * MEBIBYTE <= PLATFORM_JOBS.memory_bytes
    assert sum(task.cpu_mhz for task in tasks) <= PLATFORM_JOBS.cpu_mhz


@pytest.mark.parametrize("name", NAMES)
def test_only_who_needs_an_identity_has_one(jobs: dict[str, Job], name: str) -> None:
    """A model runs other people's code: it gets no token of the clusters."""
    tasks = jobs[name].group.tasks
    assert any(task.consul_identity for task in tasks) is (name in {"prometheus", "xds"})
    assert any(task.nomad_identity for task in tasks) is (name == "nomad-autoscaler")


def test_the_autoscaler_may_scale_and_not_submit() -> None:
    assert '"scale-job"' in POLICY_RULES
    assert "submit-job" not in POLICY_RULES
    assert '"write"' not in POLICY_RULES.partition("variables")[0]


@pytest.mark.parametrize(("weights", "asked"), [("equal", False), ("load", True)])
def test_control_planes_ask_prometheus_only_where_load_decides_weights(
    weights: str, asked: bool
) -> None:
    plan = platform_plan()
    changed = replace(plan, gateway=replace(plan.gateway, weights=weights))
    (task,) = xds_job(changed, changed.gateway.envoys[0]).group.tasks
    assert ("--prometheus" in task.args) is asked
    assert (plan.monitoring.prometheus.url in task.args) is asked
