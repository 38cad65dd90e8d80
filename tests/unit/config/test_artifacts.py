from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from slipway.config.artifacts import (
    ENTRYPOINTS,
    REQUIREMENTS,
    SERVICES,
    SHARED,
    SHARING,
    SimulatorProfile,
    bundle_digest,
    bundle_files,
    read_artifacts,
)
from slipway.config.calibration import StepTimes
from slipway.config.errors import ConfigError

STEP_TIMES = {
    "base_ms": 1.0,
    "prefill_token_ms": 0.5,
    "sequence_ms": 0.25,
    "context_token_ms": 0.0,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for service in SERVICES:
        _write(tmp_path / f"services/{service}/main.py", "print(1)")
        _write(tmp_path / f"services/{service}/part/deep.py", "")
    for service, program in ENTRYPOINTS.items():
        _write(tmp_path / f"services/{service}/{program}", "")
    _write(tmp_path / f"services/{SHARED}/__init__.py", "")
    for service in SHARING:
        (tmp_path / f"services/{service}/{SHARED}").symlink_to(f"../{SHARED}")
    for requirements in REQUIREMENTS.values():
        _write(tmp_path / requirements, "httpx==0.28.1\n")
    _write(tmp_path / "toolchain/pins.json", json.dumps({"tools": {"envoy": {"version": "1.2"}}}))
    profiles = {"profiles": {"h100": {"kv_bytes_per_token": 7, "source": "", **STEP_TIMES}}}
    _write(tmp_path / "services/engine_sim/profiles.json", json.dumps(profiles))
    return tmp_path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_names_carry_the_digests(root: Path) -> None:
    artifacts = read_artifacts(root)
    assert artifacts.bundles.keys() == set(SERVICES)
    assert artifacts.bundles["xds"] == f"xds-{bundle_digest(root, 'xds')}"
    expected = hashlib.sha256(b"httpx==0.28.1\n").hexdigest()[:12]
    assert artifacts.environments["vllm"] == f"vllm-{expected}"
    assert artifacts.tools == {"envoy": "1.2"}
    assert artifacts.simulator_profiles == {
        "h100": SimulatorProfile(kv_bytes_per_token=7, step_times=StepTimes(**STEP_TIMES))
    }


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_main.py",
        "part/tests/data.json",
        "README.md",
        "requirements.txt",
        "requirements-test.txt",
        "__pycache__/main.cpython-311.pyc",
        "part/__pycache__/deep.cpython-311.pyc",
        ".venv/bin/python",
        ".gitignore",
    ],
)
def test_what_does_not_run_on_nodes_changes_no_digest(root: Path, path: str) -> None:
    before = bundle_digest(root, "xds")
    _write(root / "services/xds" / path, "changed")
    assert bundle_digest(root, "xds") == before
    assert Path(path) not in bundle_files(root, "xds")


def test_changed_code_changes_the_digest_of_its_service_only(root: Path) -> None:
    before = read_artifacts(root).bundles
    _write(root / "services/xds/part/deep.py", "x = 1")
    after = read_artifacts(root).bundles
    assert before["xds"] != after["xds"]
    assert {name: after[name] for name in after if name != "xds"} == {
        name: before[name] for name in before if name != "xds"
    }


def test_a_renamed_file_changes_the_digest(root: Path) -> None:
    before = bundle_digest(root, "xds")
    folder = root / "services/xds"
    (folder / "main.py").rename(folder / "start.py")
    assert bundle_digest(root, "xds") != before


def test_content_moved_between_files_changes_the_digest(root: Path) -> None:
    folder = root / "services/xds"
    _write(folder / "a", "xy")
    _write(folder / "b", "")
    before = bundle_digest(root, "xds")
    _write(folder / "a", "x")
    _write(folder / "b", "y")
    assert bundle_digest(root, "xds") != before


def test_bundle_files_are_sorted_and_relative(root: Path) -> None:
    assert bundle_files(root, "xds") == [Path("main.py"), Path("part/deep.py")]


@pytest.mark.parametrize(
    "path",
    [
        "services/xds",
        "services/operator/program",
        "services/host/requirements.txt",
        "services/triton_vllm/launcher.py",
    ],
)
def test_a_missing_part_of_the_checkout_is_named(root: Path, path: str) -> None:
    (root / path).rename(root / "elsewhere")
    with pytest.raises(ConfigError) as caught:
        read_artifacts(root)
    sources = {problem.source for problem in caught.value.problems}
    assert path in sources
    assert "services/engine_sim" not in sources
