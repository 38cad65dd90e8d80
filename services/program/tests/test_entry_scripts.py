"""The scripts that resources and jobs name, as they are started: what all do alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hangs import HANG_S

SERVICES = Path(__file__).parents[2]
SCRIPTS = {
    path.name: path
    for service in ("host", "operator")
    for path in (SERVICES / service).glob("*.py")
}
SCHEMA_OF = {
    "admit.py": "admission",
    "agents.py": "node",
    "certificate_shown.py": "certificate-gate",
    "consul_acl.py": "consul-acl",
    "deliver.py": "delivery",
    "job_serves.py": "gateway-job-gate",
    "model_ready.py": "model-gate",
    "nomad_acl.py": "nomad-acl",
    "nomad_nodes.py": "pool-gate",
    "on_host.py": "host-command",
    "operator_access.py": "operator",
    "publish.py": "publication",
    "refresh_nodes.py": "node-refresh",
    "restore_snapshot.py": "restore",
    "rotate_gossip.py": "gossip",
    "routes_acknowledged.py": "routes-gate",
}
ACTION = {"on_host.py": "run"}  # "apply" of all others
OLDEST = {"agents.py": 2}  # the version before the newest
WITHOUT_DOCUMENT = {
    "firewall.py",
    "log_collectors.py",
    "members_beyond.py",
    "publish_keys.py",
    "scaling_policies.py",
    "take_snapshot.py",
}


def apply(
    script: str, folder: Path, document: dict[str, Any], action: str = "apply"
) -> subprocess.CompletedProcess[str]:
    folders = {f"SLIPWAY_{name}": str(folder / name) for name in ("RUN", "CACHE", "SCRATCH")}
    return subprocess.run(
        [sys.executable, "-B", str(SCRIPTS[script]), action],
        input=json.dumps({"schema_version": 1}),
        env=os.environ | folders | {"SLIPWAY_DOCUMENT": json.dumps(document)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def test_every_script_is_known_here() -> None:
    assert SCRIPTS.keys() == SCHEMA_OF.keys() | WITHOUT_DOCUMENT


@pytest.mark.parametrize("script", SCHEMA_OF)
def test_a_document_of_an_unknown_version_is_exit_2_with_the_versions_it_reads(
    script: str, tmp_path: Path
) -> None:
    done = apply(script, tmp_path, {"schema_version": 99}, ACTION.get(script, "apply"))
    assert done.returncode == 2
    assert f"has schema_version 99; this host reads {OLDEST.get(script, 1)}" in done.stderr


@pytest.mark.parametrize("script", SCHEMA_OF)
def test_an_empty_document_is_exit_2_and_names_its_schema(script: str, tmp_path: Path) -> None:
    oldest = {"schema_version": OLDEST.get(script, 1)}
    done = apply(script, tmp_path, oldest, ACTION.get(script, "apply"))
    assert done.returncode == 2
    assert f"does not follow schemas/{SCHEMA_OF[script]}.schema.json" in done.stderr


@pytest.mark.parametrize("script", SCHEMA_OF)
def test_another_action_is_exit_2_with_those_it_knows(script: str, tmp_path: Path) -> None:
    done = apply(script, tmp_path, {}, action="bogus")
    assert done.returncode == 2
    assert f"usage: {script}" in done.stderr
