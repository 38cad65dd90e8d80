"""catalog/fabric_variables.yaml has the variables of the pinned vLLM."""

from __future__ import annotations

import ast
from importlib.metadata import distributions
from pathlib import Path

import pytest

from slipway.config.artifacts import REQUIREMENTS
from tests.unit.plan.samples import ROOT
from tests.unit.planner.fleets import CATALOG
from toolchain.prepare import environment_folder
from toolchain.settings import default_cache

pytestmark = pytest.mark.binaries


def test_the_list_of_vllm_is_that_of_its_envs_py() -> None:
    listed = CATALOG.fabric_variables["vllm"]
    packages = _packages()
    (installed,) = [
        each.version for each in distributions(path=[str(packages)]) if each.name.startswith("vllm")
    ]
    assert f"vLLM {installed.partition('+')[0]}," in listed.source
    read = {name for name in _keys(packages / "vllm/envs.py") if name.startswith("VLLM_")}
    assert "VLLM_HOST_IP" in read
    assert set(listed.names) == read


def _packages() -> Path:
    folder = environment_folder("vllm", ROOT / REQUIREMENTS["vllm"], default_cache())
    (packages,) = folder.glob("lib/python*/site-packages")
    return packages


def _keys(module: Path) -> set[str]:
    """The names in its table `environment_variables`."""
    (table,) = [
        node.value
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "environment_variables"
    ]
    assert isinstance(table, ast.Dict)
    return {str(ast.literal_eval(key)) for key in table.keys if key is not None}
