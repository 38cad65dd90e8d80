"""This checkout and earlier revisions as files, and what their own planner and renderers say.

Each is a copy, so that files that the planner reads can be added.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.gateway.replicas import MODEL
from bench.revisions import extract
from tests.live.environments import copy_tree, deployment, write_environment

ENVIRONMENT = "peers"
SIMULATED = "sim-peers"  # write_environment makes files of such models
_ROUTE = """
import json
from pathlib import Path
from slipway.inputs import load_inputs
from stacks.planning import make_plan
plan = make_plan(load_inputs(Path.cwd(), "peers"))
print(json.dumps(dict(plan.models[0].route)))
"""
_BOOTSTRAP = """
import json, sys
sys.path.append("services/xds/tests")
from support.bootstrap import bootstrap
address, metrics_port, xds_port = sys.argv[1:]
document = bootstrap(address, metrics_port=int(metrics_port), xds_port=int(xds_port))
print(json.dumps(document))
"""


class Checkout:
    """`folder` has the files of a revision, `schema` is that of its route documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        schema = folder / "schemas/route.schema.json"
        self.schema: Mapping[str, Any] = json.loads(schema.read_text())

    def route(self) -> dict[str, Any]:
        """The route of a simulated model with all defaults, as the planner plans it."""
        planned: dict[str, Any] = json.loads(self._run(_ROUTE))
        return planned

    def bootstrap(self, address: str, *, metrics_port: int, xds_port: int) -> dict[str, Any]:
        """What Envoy is started with."""
        arguments = (address, str(metrics_port), str(xds_port))
        document: dict[str, Any] = json.loads(self._run(_BOOTSTRAP, *arguments))
        return document

    def _run(self, program: str, *arguments: str) -> str:
        paths = [str(self.folder), str(self.folder / "src")]
        begin = f"import sys; sys.path[:0] = {paths!r}\n"
        done = subprocess.run(
            [sys.executable, "-P", "-c", begin + program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.folder}: {done.stderr}")
        return done.stdout


def this_checkout(folder: Path) -> Checkout:
    copy_tree(folder)
    return _with_environment(folder)


def earlier(revision: str, folder: Path) -> Checkout:
    folder.mkdir(parents=True)
    extract(revision, folder)
    return _with_environment(folder)


def _with_environment(folder: Path) -> Checkout:
    models = {SIMULATED: deployment(1, 1)}
    write_environment(folder, ENVIRONMENT, network="127.82.0", models=models, nodes=1)
    return Checkout(folder)


def for_replicas(route: Mapping[str, Any], service: str) -> dict[str, Any]:
    """The route to plain replicas that speak the OpenAI API only, for the model of the traces."""
    backends = [{"service": service, "weight": 100}]
    return {**route, "model": MODEL, "protocols": ["http"], "backends": backends}
