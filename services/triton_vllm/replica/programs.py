"""The Triton and the vLLM of a replica: those of two environments, or of a container's image."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from replica.errors import InputError

# Where the stock images have it (Triton's documentation, "Building Triton": /opt/tritonserver).
IN_IMAGES = Path("/opt/tritonserver")
PYTHON_VERSION = sysconfig.get_python_version()


@dataclass(frozen=True, slots=True, kw_only=True)
class Triton:
    """`python_backend` are the files of Triton's Python backend, with the stub for `python`."""

    server: Path
    python_backend: tuple[Path, ...]
    python: Path  # whose packages the models use
    libraries: tuple[Path, ...]  # folders that the server and the stubs need


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    triton: Triton
    engine_python: Path  # has vLLM


def of_environments(variables: Mapping[str, str]) -> Programs:
    """Those of the environments that SLIPWAY_ENV_TRITON and SLIPWAY_ENV_VLLM name. Raises
    InputError where one is not set."""
    triton, vllm = (_folder(name, variables) for name in ("SLIPWAY_ENV_TRITON", "SLIPWAY_ENV_VLLM"))
    return Programs(triton=_of_the_package(triton), engine_python=vllm / "bin/python")


def of_this_image(planned_vllm: str, triton: Path = IN_IMAGES) -> Programs:
    """Those of the image in which this program runs. Raises InputError where they are missing, or
    where its vLLM is not the version that the replica was planned with."""
    if not (triton / "bin/tritonserver").exists():
        raise InputError(f"container: the image has no {triton}/bin/tritonserver")
    has = _installed_vllm()
    # "0.32.0+cu130" is a build of 0.32.0.
    if has.partition("+")[0] != planned_vllm:
        raise InputError(
            f"container.vllm: the replica was planned with vLLM {planned_vllm}, but the image has"
            f" {has or 'none'}"
        )
    return Programs(
        triton=Triton(
            server=triton / "bin/tritonserver",
            python_backend=_python_backend(triton, triton / "backends/python"),
            python=Path(sys.executable),
            libraries=(),  # Triton in an image needs no further paths
        ),
        engine_python=Path(sys.executable),
    )


def _of_the_package(environment: Path) -> Triton:
    """That of nvidia-pytriton, which keeps the stubs of all Python versions apart from the
    backend."""
    packages = environment / f"lib/python{PYTHON_VERSION}/site-packages"
    installed = packages / "pytriton/tritonserver"
    stubs = installed / "python_backend_stubs" / PYTHON_VERSION
    return Triton(
        server=installed / "bin/tritonserver",
        python_backend=_python_backend(installed, stubs),
        python=environment / "bin/python3",
        libraries=(
            packages / "nvidia_pytriton.libs",
            Path(str(sysconfig.get_config_var("LIBDIR"))),
        ),
    )


def _python_backend(installed: Path, stubs: Path) -> tuple[Path, ...]:
    backend = installed / "backends/python"
    return (
        backend / "libtriton_python.so",
        backend / "triton_python_backend_utils.py",
        stubs / "triton_python_backend_stub",
    )


def _installed_vllm() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return ""


def _folder(name: str, variables: Mapping[str, str]) -> Path:
    value = variables.get(name, "")
    if not value:
        raise InputError(f"environment: {name} is not set")
    return Path(value)
