"""Prometheus and Envoy validate the documents that they get."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.autoscaling.nomad import autoscaler_job
from components.autoscaling.policy import SCALE_IN_WINDOW_S, replicas_wanted_query
from components.metrics.device_alerts import device_alerts
from components.metrics.gateway_alerts import gateway_alerts
from components.metrics.group_alerts import group_alerts
from components.metrics.prometheus import prometheus_job
from components.nomad.jobspec import Job
from components.serving.nomad_job import model_job
from slipway.plan.platform import PlatformPlan
from tests.binaries import find
from tests.components.issued import certificate_files
from tests.components.platform_jobs import files, platform_jobs
from tests.components.platform_plan import platform_plan

pytestmark = [pytest.mark.binaries]


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return platform_plan()


@pytest.fixture(scope="module")
def jobs(plan: PlatformPlan) -> dict[str, Job]:
    return platform_jobs(plan)


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run(str(find("prometheus").parent / "promtool"), *arguments, folder=folder)


def task_folder(folder: Path, job: Job) -> Path:
    """What a task finds in its folder: its files, and the secrets that Nomad puts beside them."""
    for path, content in files(job).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    (folder / "secrets").mkdir()
    (folder / "secrets/consul_token").write_text("a token")
    for name, content in certificate_files().items():
        (folder / "secrets" / name).write_text(content)
    return folder


def test_prometheus_accepts_its_configuration(tmp_path: Path, jobs: dict[str, Job]) -> None:
    folder = task_folder(tmp_path, jobs["prometheus"])
    result = promtool("check", "config", "local/prometheus.yml", folder=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "is valid prometheus config file syntax" in result.stdout


def test_prometheus_would_miss_the_token_of_its_task(tmp_path: Path, jobs: dict[str, Job]) -> None:
    folder = task_folder(tmp_path, jobs["prometheus"])
    (folder / "secrets/consul_token").unlink()
    result = promtool("check", "config", "local/prometheus.yml", folder=folder)
    assert result.returncode != 0
    assert "consul_token" in result.stderr


def test_prometheus_would_refuse_a_misspelt_key(tmp_path: Path, jobs: dict[str, Job]) -> None:
    folder = task_folder(tmp_path, jobs["prometheus"])
    path = folder / "local/prometheus.yml"
    path.write_text(path.read_text().replace("consul_sd_configs", "consul_sd_config"))
    result = promtool("check", "config", "local/prometheus.yml", folder=folder)
    assert result.returncode != 0


def test_every_scaling_query_is_promql(tmp_path: Path, plan: PlatformPlan) -> None:
    rules = rule_file(
        tmp_path,
        [replicas_wanted_query(model, model.stable, plan.autoscaling) for model in plan.models],
    )
    result = promtool("check", "rules", rules, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"SUCCESS: {len(plan.models)} rules found" in result.stdout


def test_only_an_environment_with_replicas_over_several_hosts_has_their_alerts(
    plan: PlatformPlan,
) -> None:
    alone = prometheus_job(plan)
    (model,) = [model for model in plan.models if model.name == "sim"]
    over_two = dataclasses.replace(model, replica=dataclasses.replace(model.replica, nodes=2))
    both = prometheus_job(dataclasses.replace(plan, models=(over_two, *plan.models[1:])))
    rules = [
        {file.path for file in job.group.tasks[0].files if "alerts" in file.path}
        for job in (alone, both)
    ]
    assert rules[1] - rules[0] == {"local/group_alerts.yml"}
    assert not rules[0] - rules[1]


def test_only_an_environment_with_replicas_over_several_hosts_has_counts_mended(
    plan: PlatformPlan,
) -> None:
    (model,) = [model for model in plan.models if model.name == "sim"]
    over_two = dataclasses.replace(model, replica=dataclasses.replace(model.replica, nodes=2))
    both = dataclasses.replace(plan, models=(over_two, *plan.models[1:]))
    tasks = [[task.name for task in autoscaler_job(each).group.tasks] for each in (plan, both)]
    assert tasks[1] == [*tasks[0], "counts"]
    task = autoscaler_job(both).group.tasks[-1]
    assert task.nomad_identity
    assert task.args == (f"${{meta.runtime}}/bundles/{plan.node_agent.bundle}/members_beyond.py",)


def test_a_broken_query_would_be_refused(tmp_path: Path) -> None:
    result = promtool("check", "rules", rule_file(tmp_path, ["sum(up"]), folder=tmp_path)
    assert result.returncode != 0


SCRAPE = 'up{service="envoy-metrics", instance="1"}'

# (requests in flight on each cluster by 15 s, replicas wanted for a target of 16 each); OWN is the
# job of the model `sim`.
OWN = "model-sim-<digest>"
LOADS: list[tuple[str, dict[str, str], int]] = [
    ("no series at all", {}, 0),
    ("nothing in flight", {f"{OWN}-openai": "0x20", f"{OWN}-grpc": "0x20"}, 0),
    ("one request", {f"{OWN}-openai": "1x20"}, 1),
    ("exactly what one replica takes", {f"{OWN}-openai": "10x20", f"{OWN}-grpc": "6x20"}, 1),
    ("one more", {f"{OWN}-openai": "10x20", f"{OWN}-grpc": "7x20"}, 2),
    ("a peak within the window", {f"{OWN}-openai": "0x16 40 0x5"}, 3),
    ("a peak before the window", {f"{OWN}-openai": "0x4 40 0x15"}, 0),
    ("all load on the spec before", {"model-sim-012def-openai": "40x20"}, 3),
    ("load on both specs", {"model-sim-012def-grpc": "20x20", f"{OWN}-grpc": "20x20"}, 3),
    ("a service of all specs", {"model-sim-all-openai": "40x20"}, 3),
    ("reads of Envoy's statistics", {"admin": "100x20"}, 0),
    ("another service", {f"{OWN}-triton": "100x20"}, 0),
    ("another model", {"model-smollm2-012def-openai": "100x20"}, 0),
    ("a longer name", {"model-sim-8b-012def-openai": "100x20"}, 0),
    ("a name that ends like it", {"model-a-model-sim-012def-openai": "100x20"}, 0),
]


@pytest.mark.parametrize(
    ("load", "replicas"), [load[1:] for load in LOADS], ids=[load[0] for load in LOADS]
)
def test_the_query_is_the_replicas_that_the_load_wants(
    tmp_path: Path, plan: PlatformPlan, load: dict[str, str], replicas: int
) -> None:
    """One series whatever is there: a failed query stops all policies of the autoscaler."""
    (model,) = [model for model in plan.models if model.name == "sim"]
    assert model.stable.scaling.target_inflight_per_replica == 16
    assert SCALE_IN_WINDOW_S == 60
    own = model.stable.job_id
    series = [
        {
            "series": "envoy_cluster_upstream_rq_active"
            f'{{envoy_cluster_name="{cluster.replace(OWN, own)}", instance="{cluster}"}}',
            "values": values,
        }
        for cluster, values in load.items()
    ]
    series.append({"series": SCRAPE, "values": "1x20"})
    expected = {
        "expr": replicas_wanted_query(model, model.stable, plan.autoscaling),
        "eval_time": "5m",
        "exp_samples": [{"labels": "{}", "value": replicas}],
    }
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [expected]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    result = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("members", [2, 3, 8])
def test_the_query_of_replicas_over_several_hosts_is_a_multiple_of_their_members(
    tmp_path: Path, plan: PlatformPlan, members: int
) -> None:
    """At every load; while Envoy's statistics are missing, or a member has no node, it has no
    result. Nomad counts allocations."""
    (model,) = [model for model in plan.models if model.name == "sim"]
    model = dataclasses.replace(model, replica=dataclasses.replace(model.replica, nodes=members))
    cluster = f'envoy_cluster_name="{model.stable.job_id}-openai"'
    series = [
        {
            "series": f"envoy_cluster_upstream_rq_active{{{cluster}}}",
            "values": "0x19 1x19 16x19 17x19 40x19 40x19",
        },
        {"series": SCRAPE, "values": "1x59 0x19 1x39"},
        {"series": queued(model.stable.job_id), "values": "0x99 1x19"},
        {"series": queued("model-sim-012def"), "values": "1x119"},
    ]
    query = replicas_wanted_query(model, model.stable, plan.autoscaling)
    expected = [
        {
            "expr": query,
            "eval_time": at,
            "exp_samples": [{"labels": "{}", "value": members * replicas}],
        }
        for at, replicas in {"4m": 0, "9m": 1, "14m": 1, "24m": 3}.items()
    ]
    expected += [{"expr": query, "eval_time": at, "exp_samples": []} for at in ("19m", "29m")]
    test = {"interval": "15s", "input_series": series, "promql_expr_test": expected}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    result = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def queued(job: str) -> str:
    """Nomad's figure of the allocations of a job that have no node."""
    return f'nomad_nomad_job_summary_queued{{exported_job="{job}", task_group="replica"}}'


@pytest.mark.parametrize("members", [1, 2, 3, 8])
def test_the_bounds_of_the_autoscaler_are_multiples_of_the_members_of_a_replica(
    plan: PlatformPlan, members: int
) -> None:
    for planned in plan.models:
        replica = dataclasses.replace(planned.replica, nodes=members)
        model = dataclasses.replace(planned, replica=replica)
        job = model_job(
            model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        )
        scaling = job.group.scaling
        assert scaling is not None
        bounds = planned.stable.scaling
        assert scaling.min_count == members * bounds.min_replicas == job.group.count
        assert scaling.max_count == members * bounds.max_replicas
        (check,) = scaling.policy["check"]
        (inflight,) = check["inflight"]
        assert inflight["query"] == replicas_wanted_query(model, model.stable, plan.autoscaling)
        assert inflight["strategy"] == [{"pass-through": [{}]}], "adds nothing to the query"


DEVICE = 'UUID="GPU-1", modelName="NVIDIA L40S", node="gpu-0", job="devices"'
HELD = 'slipway_xds_held_replicas{job="services", model="chat"}'
QUEUED = 'nomad_nomad_job_summary_queued{exported_job="model-chat-3f9c1a", job="nomad"}'
ALERTS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("a replica that restarts", {HELD: "_x5 1x6 stale"}, {}),
    (
        "replicas that Consul does not see",
        {HELD: "_x5 3x14"},
        {
            "ReplicasHeld": "Consul takes 3 replicas of chat for unhealthy, all there are or half"
            " of them at once; the gateway uses those that answer it"
        },
    ),
    ("all is well", {f'slipway_device_healthy{{{DEVICE}, reason=""}}': "1x20"}, {}),
    (
        "a device with a fault",
        {f'slipway_device_healthy{{{DEVICE}, reason="XID 79"}}': "1x10 0x9"},
        {"AcceleratorUnhealthy": "NVIDIA L40S GPU-1 of gpu-0 takes no work: XID 79"},
    ),
    ("a plugin that restarts", {'up{job="devices", node="gpu-0"}': "1x17 0 0 1"}, {}),
    (
        "a plugin that stays away",
        {'up{job="devices", node="gpu-0"}': "1x10 0x9"},
        {
            "AcceleratorsUnseen": "the accelerators of gpu-0 are not monitored: its device plugin"
            " does not answer"
        },
    ),
    ("a member that is placed again", {QUEUED: "0x16 1 1 0"}, {}),
    (
        "members without a host",
        {QUEUED: "0x10 2x9"},
        {
            "GroupIncomplete": "2 members of model-chat-3f9c1a have no host: their replicas do not"
            " serve, and the count of replicas stays as it is"
        },
    ),
    ("a model on one host each", {QUEUED.replace("chat", "chat-8b"): "2x20"}, {}),
    ("another job's scrape", {'up{job="services", node="gpu-0"}': "0x20"}, {}),
]


@pytest.mark.parametrize(
    ("series", "alerts"), [each[1:] for each in ALERTS], ids=[each[0] for each in ALERTS]
)
def test_an_alert_says_what_is_wrong_and_why(
    tmp_path: Path, series: dict[str, str], alerts: dict[str, str]
) -> None:
    contents = {
        "devices.yml": device_alerts(),
        "gateway.yml": gateway_alerts(),
        "groups.yml": group_alerts(["chat", "other"]),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    groups = [group for each in contents.values() for group in yaml.safe_load(each)["groups"]]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    expected = [
        {
            "alertname": name,
            "eval_time": "5m",
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "warning", **_labels(next(iter(series)))},
                    "exp_annotations": {
                        "summary": alerts[name],
                        "fix": rules[name]["annotations"]["fix"],
                    },
                }
            ]
            if name in alerts
            else [],
        }
        for name in rules
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "15s", "input_series": inputs, "alert_rule_test": expected}
    document = {"rule_files": [*contents], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    result = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def _labels(series: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', series))


# (envoys expected, by 15 s whether each is scraped and the load, replicas wanted for a target of
# 16 each; None: no result, so that the count is kept).
FLAT = "40x20"
SCRAPES: list[tuple[str, int, list[str], str, int | None]] = [
    ("all are seen", 1, ["1x20"], FLAT, 3),
    ("the scrape fails", 1, ["1x17 0 0 0"], FLAT, None),
    ("the scrape failed and works again", 1, ["1x12 0 0 0 0 1 1 1 1"], FLAT, 3),
    ("never found", 1, [], FLAT, None),
    ("no longer found", 1, ["1x18 stale"], FLAT, None),
    ("one of two fails", 2, ["1x20", "1x17 0 0 0"], FLAT, None),
    ("both are seen", 2, ["1x20", "1x20"], FLAT, 3),
    # Prometheus stood still and leaves no mark of it: the last samples are still its answer.
    ("nothing is scraped any more", 1, ["1x17 _ _ _"], "0x17 _ _ _", None),
    ("the first scrape", 1, ["_x20 1"], "_x20 40", 3),
    ("the first scrape after a gap", 1, ["1x7 _x12 1"], "40x7 _x12 1", 3),
    ("the first good scrape after failed ones", 1, ["1x7 0x11 1"], "40x7 _x12 1", 3),
    ("a minute and more after a gap", 1, ["1x2 0x6 1x10"], "40x9 1x10", 1),
]


@pytest.mark.parametrize(
    ("envoys", "scrapes", "load", "replicas"),
    [scrape[1:] for scrape in SCRAPES],
    ids=[scrape[0] for scrape in SCRAPES],
)
def test_no_count_is_wanted_while_an_envoy_is_not_seen(
    tmp_path: Path,
    plan: PlatformPlan,
    envoys: int,
    scrapes: list[str],
    load: str,
    replicas: int | None,
) -> None:
    (model,) = [model for model in plan.models if model.name == "sim"]
    inflight = (
        f'envoy_cluster_upstream_rq_active{{envoy_cluster_name="{model.stable.job_id}-grpc"}}'
    )
    series = [
        {"series": SCRAPE.replace('"1"', f'"{number}"'), "values": values}
        for number, values in enumerate(scrapes)
    ]
    expected = {
        "expr": replicas_wanted_query(
            model, model.stable, dataclasses.replace(plan.autoscaling, envoys=envoys)
        ),
        "eval_time": "5m",
        "exp_samples": [] if replicas is None else [{"labels": "{}", "value": replicas}],
    }
    test = {
        "interval": "15s",
        "input_series": [*series, {"series": inflight, "values": load}],
        "promql_expr_test": [expected],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    result = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("release", "replicas"), [("stable", 3), ("canary", 1)])
def test_each_release_wants_replicas_for_its_own_load(
    tmp_path: Path, plan: PlatformPlan, release: str, replicas: int
) -> None:
    (model,) = [model for model in plan.models if model.name == "sim"]
    canary = dataclasses.replace(
        model.stable, name="canary", job_id="model-sim-ca0a12", service="model-sim-ca0a12"
    )
    model = dataclasses.replace(model, releases=(model.stable, canary))
    (wanting,) = [each for each in model.releases if each.name == release]
    loads = {model.stable.job_id: 20, "model-sim-012def": 20, canary.job_id: 10}
    series = [
        {
            "series": f'envoy_cluster_upstream_rq_active{{envoy_cluster_name="{job}-openai"}}',
            "values": f"{load}x20",
        }
        for job, load in loads.items()
    ]
    expected = {
        "expr": replicas_wanted_query(model, wanting, plan.autoscaling),
        "eval_time": "5m",
        "exp_samples": [{"labels": "{}", "value": replicas}],
    }
    test = {
        "interval": "15s",
        "input_series": [*series, {"series": SCRAPE, "values": "1x20"}],
        "promql_expr_test": [expected],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    result = promtool("test", "rules", "test.yml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def rule_file(folder: Path, queries: list[str]) -> str:
    rules = [{"record": f"wanted_{index}", "expr": query} for index, query in enumerate(queries)]
    document = {"groups": [{"name": "scaling", "rules": rules}]}
    (folder / "rules.yml").write_text(yaml.safe_dump(document))
    return "rules.yml"


def test_envoy_accepts_the_bootstrap_of_its_job(tmp_path: Path, jobs: dict[str, Job]) -> None:
    folder = task_folder(tmp_path, jobs["envoy"])
    result = validate_envoy(folder)
    assert result.returncode == 0, result.stderr
    assert "[warning]" not in result.stderr


def test_envoy_would_refuse_a_misspelt_key(tmp_path: Path, jobs: dict[str, Job]) -> None:
    folder = task_folder(tmp_path, jobs["envoy"])
    document: dict[str, Any] = json.loads(files(jobs["envoy"])["local/envoy.json"])
    document["admn"] = document.pop("admin")
    (folder / "local/envoy.json").write_text(json.dumps(document))
    assert validate_envoy(folder).returncode != 0


def validate_envoy(folder: Path) -> subprocess.CompletedProcess[str]:
    """With the very arguments of the job."""
    (task,) = platform_jobs(platform_plan())["envoy"].group.tasks
    return run(str(find("envoy")), *task.args, "--mode", "validate", folder=folder)
