"""The check of hosts before they take members: its jobs, documents, alert and metadata."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cli.clusters import groups
from components.certificates.identities import fabric_admission
from components.fabric import metadata
from components.fabric.document import pools_document
from components.fabric.jobs import (
    ADMISSION_RULES,
    CHECK_CPU_MHZ,
    CHECK_MEMORY_MB,
    CHECK_RULES,
    JOB_ID,
    admission_job,
    check_job,
    pools_with_groups,
)
from components.hosts.artifacts import of_node
from components.metrics.fabric_alerts import ADMITTED, FILE
from components.metrics.prometheus import prometheus_config, prometheus_job
from components.nomad.jobspec import Job, to_json
from components.serving import members
from components.serving.nomad_job import model_job
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.components.test_devices import WITH_AGENTS
from tests.live.environments import SIMULATED_ENGINE
from tests.unit.plan.samples import dev_inputs
from tests.unit.planner.fleets import fleet

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "services/fabric"
WORKERS = [{"name": f"worker-{k}", "address": f"10.77.0.{41 + k}"} for k in range(2)]
EDGE = {"name": "edge-0", "address": "10.77.0.31"}
TCP = {"kind": "tcp", "allow_tcp": True, "mtu": 9000, "interfaces": ["ens1f0"]}
ROCE = {"kind": "roce", "hcas": [{"device": "mlx5_0"}, {"device": "mlx5_1"}], "gid_index": 3}


def planned(*, pipeline: int = 2, **pool: Any) -> PlatformPlan:
    """Two hosts, and one for the gateway; a model over `pipeline` of the hosts."""
    pools = {
        "cpu": {"kind": "metal", "hosts": WORKERS, "memory": "64GiB", "cpu": 16, **pool},
        "edge": {"kind": "metal", "hosts": [EDGE], "memory": "4GiB", "cpu": 2},
    }
    inputs = fleet(
        {"name": "sim-a", "engine": SIMULATED_ENGINE, "parallel": {"pipeline": pipeline}},
        pools=pools,
        replicas={"min": 1, "max": 1},
        deployments={"sim-a": {"pools": ["cpu"]}},
        gateway={"pool": "edge"},
        server_hosts=[{"name": "server-0", "address": "10.77.0.11"}],
        network={"cidr": "10.77.0.0/16"},
    )
    return make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS))


def document(plan: PlatformPlan) -> dict[str, Any]:
    schema = json.loads((ROOT / "schemas/fabric-pools.schema.json").read_text())
    found: dict[str, Any] = json.loads(pools_document(pools_with_groups(plan)))
    jsonschema.validate(found, schema)
    pool: dict[str, Any] = found["pools"]["cpu"]
    return pool


def task_of(job: Job) -> dict[str, Any]:
    (task,) = json.loads(to_json(job))["Job"]["TaskGroups"][0]["Tasks"]
    found: dict[str, Any] = task
    return found


@pytest.fixture(scope="module")
def over_tcp() -> PlatformPlan:
    return planned(fabric=TCP)


def test_a_pool_without_groups_is_not_checked_and_its_platform_has_nothing_of_it() -> None:
    for plan in (planned(pipeline=1, fabric=TCP), make_plan(dev_inputs(artifacts=WITH_AGENTS))):
        assert pools_with_groups(plan) == []
        assert FILE not in prometheus_config(plan)
        (model, *_) = plan.models
        job = model_job(
            model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        )
        assert metadata.MEMBERS not in to_json(job)


def test_only_hosts_that_may_take_members_get_one(over_tcp: PlatformPlan) -> None:
    (model,) = over_tcp.models
    job = model_job(
        model, model.stable, datacenter=over_tcp.datacenter, autoscaling=over_tcp.autoscaling
    )
    (group,) = job.render()["Job"]["TaskGroups"]
    constraint = {"LTarget": "${meta.fabric_members}", "Operand": "=", "RTarget": "yes"}
    assert constraint in group["Constraints"]


def test_a_member_and_the_check_of_its_host_take_what_is_planned_for_the_member(
    over_tcp: PlatformPlan,
) -> None:
    (model,) = over_tcp.models
    job = model_job(
        model, model.stable, datacenter=over_tcp.datacenter, autoscaling=over_tcp.autoscaling
    )
    beside = task_of(check_job(over_tcp, over_tcp.pool("cpu")))["Resources"]
    assert beside == {"CPU": CHECK_CPU_MHZ, "MemoryMB": CHECK_MEMORY_MB}
    tasks = {
        each.name: each for each in job.group.tasks if each.name in (members.SERVER, members.FRONT)
    }
    memory = sum(each.memory_mb for each in tasks.values()) + beside["MemoryMB"]
    assert memory == model.replica.memory_bytes // 2**20


def test_each_host_of_the_pool_checks_itself_and_may_only_read(over_tcp: PlatformPlan) -> None:
    job = check_job(over_tcp, over_tcp.pool("cpu"))
    rendered = job.render()["Job"]
    assert (rendered["Type"], rendered["NodePool"]) == ("system", "cpu")
    assert "ReschedulePolicy" not in rendered["TaskGroups"][0]
    assert "write" not in CHECK_RULES
    (program,) = [word for word in task_of(job)["Config"]["args"] if word.endswith("check_host.py")]
    assert (SERVICE / Path(program).name).is_file()
    assert list(json.loads(task_of(job)["Env"]["SLIPWAY_DOCUMENT"])["pools"]) == ["cpu"]


def test_one_job_beside_prometheus_judges_and_writes(over_tcp: PlatformPlan) -> None:
    job = admission_job(over_tcp)
    rendered = job.render()["Job"]
    assert (rendered["Type"], rendered["NodePool"]) == ("service", "edge")
    assert (job.address, job.group.count) == (EDGE["address"], 1)
    assert "alloc-lifecycle" not in ADMISSION_RULES
    (service,) = job.group.services
    assert service.tags == ("metrics",)
    assert fabric_admission(over_tcp, JOB_ID).addresses == (EDGE["address"],)
    assert task_of(job)["Env"]["SLIPWAY_READER"] == over_tcp.peers.prometheus
    (program,) = [
        word for word in task_of(job)["Config"]["args"] if word.endswith("keep_admissions.py")
    ]
    assert (SERVICE / Path(program).name).is_file()


def test_the_programs_are_where_they_run(over_tcp: PlatformPlan) -> None:
    check = over_tcp.pool("cpu").fabric_check
    assert check is not None
    (edge,) = over_tcp.pool("edge").hosts
    for node in (*over_tcp.pool("cpu").hosts, edge):
        assert f"bundles/{check.bundle}" in of_node(over_tcp, node)


def test_over_tcp_the_interface_and_its_mtu_are_planned_and_gaps_admit(
    over_tcp: PlatformPlan,
) -> None:
    pool = document(over_tcp)
    assert pool["planned"] == {
        "kind": "tcp",
        "interface": "ens1f0",
        "interface_mtu_bytes": 9000,
    }
    assert (pool["gaps_admit"], pool["measures"]) == (True, False)


def test_thresholds_that_the_pool_states_replace_the_catalogs_and_let_hosts_measure() -> None:
    pool = document(planned(network_gbps=25, fabric={**TCP, "check": {"bandwidth_share": 0.5}}))
    assert pool["planned"]["rate_gbit_per_s"] == 25
    stated, listed = pool["thresholds"]["bandwidth_share"], pool["thresholds"]["latency_us"]
    assert (stated["value"], stated["source"]) == (0.5, "the pool's `fabric.check`")
    assert listed["value"] == 500
    assert pool["measures"]


def test_over_rdma_adapters_are_planned_hosts_measure_and_gaps_keep_members_off() -> None:
    pool = document(planned(network_gbps=200, fabric=ROCE))
    assert pool["planned"] == {
        "kind": "roce",
        "devices": ["mlx5_0", "mlx5_1"],
        "rate_gbit_per_s": 100,
        "gid_index": 3,
    }
    assert (pool["gaps_admit"], pool["measures"]) == (False, True)
    assert pool["thresholds"]["latency_us"]["value"] == 2.5


@pytest.mark.parametrize(
    ("fabric", "gbit"),
    [
        ("infiniband", None),
        ({"kind": "roce", "gid_index": 3}, None),
        ({**TCP, "interfaces": ["ens1f0", "ens1f1"]}, 100),
    ],
)
def test_the_rate_of_a_rail_is_planned_only_where_their_number_is_known(
    fabric: Any, gbit: float | None
) -> None:
    pool = document(planned(network_gbps=200, fabric=fabric))
    assert pool["planned"].get("rate_gbit_per_s") == gbit


def test_prometheus_warns_of_hosts_that_take_no_members(over_tcp: PlatformPlan) -> None:
    assert FILE in prometheus_config(over_tcp)
    (rules,) = [
        each.content
        for each in prometheus_job(over_tcp).group.tasks[0].files
        if each.path == f"local/{FILE}"
    ]
    first, second = yaml.safe_load(rules)["groups"][0]["rules"]
    assert (first["expr"], second["expr"]) == (f"{ADMITTED} == 0", f"absent({ADMITTED})")
    assert "{{ $labels.reason }}" in first["annotations"]["summary"]


def constants(file: str) -> dict[str, Any]:
    """The module's own texts, by name."""
    found: dict[str, Any] = {}
    for statement in ast.parse((SERVICE / file).read_text()).body:
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                continue
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value if isinstance(target, ast.Tuple) else [value]
            found |= {ast.unparse(name): each for name, each in zip(names, values, strict=True)}
    return found


def test_both_sides_have_the_same_names() -> None:
    requests, verdicts = constants("fabric/requests.py"), constants("admission/verdicts.py")
    assert requests["REQUEST"] == metadata.REQUEST
    assert f"alloc/{requests['REPORT']}" == metadata.HOST_REPORT
    roles = metadata.CHECK, metadata.LISTEN, metadata.MEASURE
    assert (requests["CHECK"], requests["LISTEN"], requests["MEASURE"]) == roles
    names = metadata.VERDICT, metadata.MEMBERS, metadata.DETAILS
    assert (verdicts["FABRIC"], verdicts["MEMBERS"], verdicts["DETAILS"]) == names
    assert members.ADMITTED == {verdicts["MEMBERS"]: verdicts["YES"]} == {metadata.MEMBERS: "yes"}
    assert constants("program/group/place.py")["MEMBERS"] == groups.MEMBERS
    assert constants("admission/page.py")["ADMITTED"] == ADMITTED
