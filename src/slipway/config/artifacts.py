"""Digests of the code and environments that replicas run: a change of either is a new replica."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ConfigError, Problem

DIGEST_LENGTH = 12

SERVICES = ("engine_sim", "node", "triton_vllm", "xds")

# What runs of a service on a node, of those that replicas run; relative to its folder.
ENTRYPOINTS = {"engine_sim": "engine_sim.py", "triton_vllm": "launcher.py"}

# What a person runs from the checkout and no node does; relative to the service's folder.
NOT_ON_NODES = {"engine_sim": ("make_trace.py", "replay.py", "simulator/fleet")}

# name of a Python environment -> its fully pinned requirements
REQUIREMENTS = {
    "engine_sim": "services/engine_sim/requirements.txt",
    "node": "services/node/requirements.txt",
    "triton": "services/triton_vllm/requirements-triton.txt",
    "vllm": "services/triton_vllm/requirements-vllm.txt",
    "xds": "services/xds/requirements.txt",
}

# What turns a plan into a replica's job. Another rendering under the same job ID would restart
# every replica at once; counted into the digest it is a change like any other.
JOB_RENDERERS = ("components/nomad/jobspec.py", "components/serving/nomad_job.py")

TOOL_PINS = "toolchain/pins.json"
SIMULATOR_PROFILES = "services/engine_sim/profiles.json"

_SKIPPED_FOLDERS = {"tests", "__pycache__"}
_SKIPPED_PREFIXES = (".", "README", "requirements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Folder names under bundles/ and envs/ of the runtime folder, and facts of what runs there."""

    bundles: Mapping[str, str]  # "xds" -> "xds-1a2b3c4d5e6f"
    environments: Mapping[str, str]  # "vllm" -> "vllm-1a2b3c4d5e6f"
    tools: Mapping[str, str]  # "envoy" -> "1.40.0"
    simulator_kv_bytes: Mapping[str, int]  # profile of the simulator -> KV cache bytes per token
    job_renderer: str  # digest of the code that renders replicas' jobs


def read_artifacts(root: Path) -> Artifacts:
    """Hash the services and requirement files of a checkout.

    Raises ConfigError when a part is missing: the checkout is not whole.
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
        simulator_kv_bytes=_simulator_kv_bytes(root),
        job_renderer=_digest_of(root, JOB_RENDERERS),
    )


def bundle_files(root: Path, service: str) -> list[Path]:
    """The files of services/<service> that run on nodes: paths relative to it, sorted.

    Left out: tests, READMEs, requirements, caches, dotfiles and NOT_ON_NODES. The bundle's digest
    covers exactly these files.
    """
    folder = root / "services" / service
    elsewhere = {folder / path for path in NOT_ON_NODES.get(service, ())}
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [
            each for each in folders if _runs_on_nodes(each) and here / each not in elsewhere
        ]
        files = (here / each for each in names if not each.startswith(_SKIPPED_PREFIXES))
        found += [path for path in files if path.is_file() and path not in elsewhere]
    return sorted((path.relative_to(folder) for path in found), key=Path.as_posix)


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
    """First 12 hex characters of SHA-256 over the requirements file of a Python environment."""
    content = (root / REQUIREMENTS[environment]).read_bytes()
    return hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]


def _digest_of(root: Path, paths: Iterable[str]) -> str:
    contents = b"\0".join((root / path).read_bytes() for path in paths)
    return hashlib.sha256(contents).hexdigest()[:DIGEST_LENGTH]


def _wanted_paths() -> list[str]:
    services = [f"services/{service}" for service in SERVICES]
    programs = [f"services/{service}/{program}" for service, program in ENTRYPOINTS.items()]
    files = [*REQUIREMENTS.values(), *JOB_RENDERERS, TOOL_PINS, SIMULATOR_PROFILES]
    return [*services, *programs, *files]


def _tool_versions(root: Path) -> dict[str, str]:
    pins = json.loads((root / TOOL_PINS).read_text(encoding="utf-8"))
    return {tool: pin["version"] for tool, pin in sorted(pins["tools"].items())}


def _simulator_kv_bytes(root: Path) -> dict[str, int]:
    document = json.loads((root / SIMULATOR_PROFILES).read_text(encoding="utf-8"))
    profiles = sorted(document["profiles"].items())
    return {name: profile["kv_bytes_per_token"] for name, profile in profiles}


def _runs_on_nodes(folder: str) -> bool:
    return folder not in _SKIPPED_FOLDERS and not folder.startswith(".")
