"""Digests of the code and environments that replicas run: changing either replaces the replicas."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .calibration import StepTimes
from .errors import ConfigError, Problem
from .imports import imported_modules

DIGEST_LENGTH = 12

SERVICES = ("aws", "devices", "engine_sim", "fabric", "host", "operator", "triton_vllm", "xds")
SHARED = "program"  # the package that some services share
# Whose folders have a link to it.
SHARING = ("aws", "devices", "engine_sim", "fabric", "host", "operator", "triton_vllm")

# For the services that replicas run, the files that run on nodes; relative to the service's folder.
ENTRYPOINTS = {"engine_sim": "watcher.py", "triton_vllm": "launcher.py"}

# name of a Python environment -> its fully pinned requirements
REQUIREMENTS = {
    "devices": "services/devices/requirements.txt",
    "engine_sim": "services/engine_sim/requirements.txt",
    "node": "services/host/requirements.txt",
    "triton": "services/triton_vllm/requirements-triton.txt",
    "vllm": "services/triton_vllm/requirements-vllm.txt",
    "vllm_cuda": "services/triton_vllm/requirements-vllm-cuda.txt",
    "weights": "services/triton_vllm/requirements-weights.txt",
    "xds": "services/xds/requirements.txt",
}

TOOL_PINS = "toolchain/pins.json"
SIMULATOR_PROFILES = "services/engine_sim/profiles.json"

_COMMENT = re.compile(r"(^|\s+)#.*$")  # as pip and uv read it: a URL may hold a #
_SKIPPED_FOLDERS = {"tests", "__pycache__"}
_SKIPPED_PREFIXES = (".", "README", "requirements")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorProfile:
    """A row of SIMULATOR_PROFILES."""

    kv_bytes_per_token: int
    step_times: StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Folder names under bundles/ and envs/ of the runtime folder, and facts about their
    contents."""

    bundles: Mapping[str, str]  # "xds" -> "xds-1a2b3c4d5e6f"
    environments: Mapping[str, str]  # "vllm" -> "vllm-1a2b3c4d5e6f"
    tools: Mapping[str, str]  # "envoy" -> "1.40.0"
    simulator_profiles: Mapping[str, SimulatorProfile]


def read_artifacts(root: Path) -> Artifacts:
    """Hash the services and requirement files of a checkout.

    Raises ConfigError when one is missing, which means the checkout is incomplete.
    """
    missing = [
        Problem(
            source=path,
            key="",
            message="is missing from this checkout",
            fix="restore it with git",
        )
        for path in _wanted_paths()
        if not (root / path).exists()
    ]
    if missing:
        raise ConfigError(missing)
    return Artifacts(
        bundles={service: f"{service}-{bundle_digest(root, service)}" for service in SERVICES},
        environments={
            name: f"{name}-{requirements_digest(root, name)}" for name in sorted(REQUIREMENTS)
        },
        tools=_tool_versions(root),
        simulator_profiles=_simulator_profiles(root),
    )


def bundle_files(root: Path, service: str) -> list[Path]:
    """The files of services/<service> that run on nodes, as sorted relative paths.

    Left out: tests, READMEs, requirements, caches and dotfiles; and of the package that services
    share, the modules that this one does not import. The bundle's digest covers exactly these.
    """
    folder = root / "services" / service
    found: list[Path] = []
    for place, folders, names in os.walk(folder):  # which follows no links
        folders[:] = [each for each in folders if _runs_on_nodes(each)]
        files = (Path(place, each) for each in names if not each.startswith(_SKIPPED_PREFIXES))
        found += [path.relative_to(folder) for path in files if path.is_file()]
    if service in SHARING:
        programs = [path for path in found if path.suffix == ".py"]
        found += imported_modules(folder, SHARED, programs)
    return sorted(found, key=Path.as_posix)


def bundle_digest(root: Path, service: str) -> str:
    """The digest of `bundle_files`."""
    return files_digest(root / "services" / service, bundle_files(root, service))


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """First 12 hex characters of SHA-256 over paths, relative to `folder`, and their contents."""
    digest = hashlib.sha256()
    for path in files:
        content = (folder / path).read_bytes()
        digest.update(f"{path.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGEST_LENGTH]


def requirements_digest(root: Path, environment: str) -> str:
    """First 12 hex characters of SHA-256 over the requirements of a Python environment, without the
    comments and blank lines of the file. `toolchain.requirements` has the same definition."""
    text = (root / REQUIREMENTS[environment]).read_text(encoding="utf-8")
    lines = (_COMMENT.sub("", line).rstrip() for line in text.splitlines())
    content = "".join(f"{line}\n" for line in lines if line)
    return hashlib.sha256(content.encode()).hexdigest()[:DIGEST_LENGTH]


def _wanted_paths() -> list[str]:
    services = [f"services/{service}" for service in (*SERVICES, SHARED)]
    programs = [f"services/{service}/{program}" for service, program in ENTRYPOINTS.items()]
    links = [f"services/{service}/{SHARED}" for service in SHARING]
    files = [*REQUIREMENTS.values(), TOOL_PINS, SIMULATOR_PROFILES]
    return [*services, *links, *programs, *files]


def _tool_versions(root: Path) -> dict[str, str]:
    pins = json.loads((root / TOOL_PINS).read_text(encoding="utf-8"))
    return {tool: pin["version"] for tool, pin in sorted(pins["tools"].items())}


def _simulator_profiles(root: Path) -> dict[str, SimulatorProfile]:
    document = json.loads((root / SIMULATOR_PROFILES).read_text(encoding="utf-8"))
    return {
        name: SimulatorProfile(
            kv_bytes_per_token=row["kv_bytes_per_token"],
            step_times=StepTimes(**{each: row[each] for each in StepTimes.model_fields}),
        )
        for name, row in sorted(document["profiles"].items())
    }


def _runs_on_nodes(folder: str) -> bool:
    return folder not in _SKIPPED_FOLDERS and not folder.startswith(".")
