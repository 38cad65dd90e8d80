"""The dev environment of this checkout on a machine and with artifacts that never change."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.config.artifacts import REQUIREMENTS, SERVICES, Artifacts, SimulatorProfile
from slipway.config.calibration import StepTimes
from slipway.config.catalog import Catalog, load_catalog
from slipway.config.document import read_document
from slipway.config.environment import parse_environment
from slipway.config.files import deployed_models, load_models
from slipway.config.machine import MachineFacts
from slipway.config.model import Model
from slipway.inputs import PlanInputs
from slipway.plan.document import plan_to_json
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan

ROOT = Path(__file__).parents[3]
GIB = 2**30

MACHINE = MachineFacts(cpu_cores=2, memory_bytes=24 * GIB)
ARTIFACTS = Artifacts(
    bundles={service: f"{service}-0123456789ab" for service in SERVICES},
    environments={name: f"{name}-0123456789ab" for name in REQUIREMENTS},
    tools={"envoy": "1.40.0", "prometheus": "3.14.0"},
    simulator_profiles={
        "h100-fp8-llama-3.1-8b": SimulatorProfile(
            kv_bytes_per_token=131_072,
            step_times=StepTimes(
                base_ms=5.0, prefill_token_ms=0.02, sequence_ms=0.015, context_token_ms=4e-05
            ),
        )
    },
)


def dev_inputs(
    *, machine: MachineFacts = MACHINE, artifacts: Artifacts = ARTIFACTS, **changes: Any
) -> PlanInputs:
    """The inputs of Pulumi.dev.yaml; `changes` replace values of slipway:<key>."""
    return _inputs("dev", machine, artifacts, changes)


def hosts_inputs(**changes: Any) -> PlanInputs:
    """The inputs of Pulumi.hosts.yaml, without a file of the hosts' keys."""
    return _inputs("hosts", MACHINE, ARTIFACTS, changes)


def _inputs(
    name: str, machine: MachineFacts, artifacts: Artifacts, changes: dict[str, Any]
) -> PlanInputs:
    source = f"Pulumi.{name}.yaml"
    file = read_document(ROOT / source, source=source)
    values = file.values["config"] | {f"slipway:{key}": value for key, value in changes.items()}
    environment = parse_environment(values, name=name, source=source)
    return PlanInputs(
        environment=environment,
        models=deployed_models(environment, library()),
        catalog=catalog(),
        artifacts=artifacts,
        machine=machine,
    )


# This checkout's, read once: most tests want both and none changes them.


@functools.cache
def catalog() -> Catalog:
    return load_catalog(ROOT)


@functools.cache
def library() -> Mapping[str, Model]:
    return load_models(ROOT, "models")


def dev_plan(**changes: Any) -> PlatformPlan:
    return make_plan(dev_inputs(**changes))


if __name__ == "__main__":  # python -m tests.unit.plan.samples > tests/unit/plan/dev_plan.json
    sys.stdout.write(plan_to_json(dev_plan()))
