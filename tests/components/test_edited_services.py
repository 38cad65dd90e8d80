"""What an edit of services/operator, services/host or services/program changes in a preview."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.hosts_scale import Digests, write_environment
from bench.preview_scale import read, register
from slipway.config.artifacts import Artifacts, read_artifacts
from slipway.inputs import PlanInputs
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ROOT = Path(__file__).parents[2]
HOSTS = ("server-0", "server-1", "server-2", "host-0", "host-1", "edge-0")

GATE = "services/operator/gates/model.py"
SSH = "services/operator/delivery/ssh.py"
AGENTS = "services/host/host/lifecycle.py"
CHECK = "services/host/checks/scaling_policies.py"
SHARED = "services/program/http_json.py"

BESIDE_THE_OPERATOR = {
    "dev": {
        "operator-access",
        "consul-acl",
        "nomad-acl",
        "nomad-workloads",
        "pool-cpu-ready",
        "pool-edge-ready",
        "model-smollm2-ready",
        "routes-acknowledged",
    },
    "metal": {
        "operator-access",
        "consul-acl",
        "nomad-acl",
        "nomad-workloads",
        *(f"admission-{host}" for host in HOSTS if not host.startswith("server")),
        "pool-cpu-ready",
        "pool-edge-ready",
        "model-sim-ready",
        "routes-acknowledged",
    },
}
DELIVERIES = {"dev": set[str](), "metal": {f"delivery-{host}" for host in HOSTS}}
ON_HOSTS = {
    "dev": {
        "consul-server-0",
        "nomad-server-0",
        "node-cpu-0",
        "node-cpu-1",
        "node-edge-0",
        "nomad-autoscaler",
    },
    "metal": {
        *(f"{system}-server-{number}" for system in ("consul", "nomad") for number in range(3)),
        *(f"node-{host}" for host in HOSTS if not host.startswith("server")),
        "nomad-autoscaler",
        "snapshots",
    },
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what bundles are made of."""
    root = tmp_path_factory.mktemp("checkout")
    unused = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "services", root / "services", symlinks=True, ignore=unused)
    (root / "toolchain").mkdir()
    shutil.copyfile(ROOT / "toolchain/pins.json", root / "toolchain/pins.json")
    return root


@pytest.fixture(scope="module")
def before(services: Path, target: str, inputs: PlanInputs) -> dict[str, str]:
    return registered(inputs, read_artifacts(services))


@pytest.fixture(scope="module", params=["dev", "metal"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def inputs(target: str, tmp_path_factory: pytest.TempPathFactory) -> PlanInputs:
    """This machine; or machines of one's own, reached over SSH."""
    if target == "dev":
        return dev_inputs()
    folder = tmp_path_factory.mktemp("metal")
    write_environment(folder, 2)
    return read(folder)


def registered(inputs: PlanInputs, artifacts: Artifacts) -> dict[str, str]:
    """The digests of all resources by name."""
    digests = Digests()
    register(make_plan(replace(inputs, artifacts=artifacts)), digests)
    return digests.digests


@contextmanager
def edited(paths: Sequence[Path]) -> Iterator[None]:
    texts = {path: path.read_text() for path in paths}
    for path, text in texts.items():
        path.write_text(f"{text}\n")
    try:
        yield
    finally:
        for path, text in texts.items():
            path.write_text(text)


def changed_by(*paths: str, services: Path, inputs: PlanInputs, before: dict[str, str]) -> set[str]:
    """The resources that edits change."""
    with edited([services / path for path in paths]):
        after = registered(inputs, read_artifacts(services))
    assert after.keys() == before.keys()
    return {name for name, digest in after.items() if digest != before[name]}


@pytest.mark.parametrize("path", [GATE, SSH])
def test_an_edited_gate_changes_only_programs_beside_the_operator(
    path: str, services: Path, target: str, inputs: PlanInputs, before: dict[str, str]
) -> None:
    changed = changed_by(path, services=services, inputs=inputs, before=before)
    assert changed == BESIDE_THE_OPERATOR[target] | DELIVERIES[target]


@pytest.mark.parametrize("path", [AGENTS, CHECK])
def test_an_edited_program_of_hosts_changes_only_hosts_and_the_jobs_that_run_it(
    path: str, services: Path, target: str, inputs: PlanInputs, before: dict[str, str]
) -> None:
    changed = changed_by(path, services=services, inputs=inputs, before=before)
    assert changed == ON_HOSTS[target] | DELIVERIES[target]  # which bring it there


def test_an_edited_module_that_both_import_changes_both(
    services: Path, target: str, inputs: PlanInputs, before: dict[str, str]
) -> None:
    changed = changed_by(SHARED, services=services, inputs=inputs, before=before)
    assert changed == BESIDE_THE_OPERATOR[target] | ON_HOSTS[target] | DELIVERIES[target]


def test_what_runs_nowhere_changes_nothing(
    services: Path, inputs: PlanInputs, before: dict[str, str]
) -> None:
    changed = changed_by(
        "services/operator/tests/gate.py",
        "services/host/tests/test_accounts.py",
        "services/program/tests/cluster.py",
        "services/program/README.md",
        services=services,
        inputs=inputs,
        before=before,
    )
    assert changed == set()
