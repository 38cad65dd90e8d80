"""Libraries of vLLM's environment that nothing opens on a machine without a GPU.

The ordinary index has PyTorch with CUDA only, and compilers that bring the tools of every device.
What PyTorch is linked with has to be there when it is imported; what it would open only for a GPU
does not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolchain.environments import find_uv, uv_environment
from toolchain.progress import Step, silent

# Package -> what none of its programs opens without a GPU; patterns begin in the folder `lib`.
_PACKAGES = "python3.*/site-packages"
UNUSED: Mapping[str, tuple[str, ...]] = {
    "nvidia-cudnn-cu13": (f"{_PACKAGES}/nvidia/cudnn/lib/libcudnn_*",),
    "nvidia-cuda-nvrtc": (f"{_PACKAGES}/nvidia/cu13/lib/libnvrtc*.alt.so*",),
    "nvidia-cuda-cupti": (f"{_PACKAGES}/nvidia/cu13/lib/libnvperf_*",),
    "nvidia-cusolver": (f"{_PACKAGES}/nvidia/cu13/lib/libcusolverMg.so*",),
    "nvidia-nvshmem-cu13": (
        f"{_PACKAGES}/nvidia/nvshmem/lib/*_device.*",
        f"{_PACKAGES}/nvidia/nvshmem/lib/nvshmem_*",
    ),
    "triton": (
        f"{_PACKAGES}/triton/backends/nvidia/bin",
        f"{_PACKAGES}/triton/backends/nvidia/lib/cupti",
        f"{_PACKAGES}/triton/_C/libproton.so",  # its profiler of GPUs
        f"{_PACKAGES}/triton/instrumentation",
    ),
    "intel-cmplr-lib-ur": ("libur_*", "libpi_*"),
    "intel-openmp": ("libomptarget*", "libiomp5.a", "libiomp5.dbg"),
}
_WAIT_S = "2"  # for another run of uv


def unused_libraries(cache: Path) -> Iterator[Path]:
    """Files and folders below `<cache>/envs`."""
    for environment in (cache / "envs").glob("vllm-*"):
        if (environment / ".complete").exists():
            for patterns in UNUSED.values():
                for pattern in patterns:
                    yield from (environment / "lib").glob(pattern)


def forgotten_by_uv(cache: Path) -> bool:
    """Removes uv's own links to these packages, which would keep the files on the disk; False while
    uv is in use."""
    folder = cache / "downloads" / "uv"
    if not folder.exists():
        return True
    uv = find_uv(cache, Step("uv", silent))
    command: list[str | Path] = [uv, "cache", "clean", "--cache-dir", folder, *UNUSED]
    env = uv_environment(cache) | {"UV_LOCK_TIMEOUT": _WAIT_S}
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0
