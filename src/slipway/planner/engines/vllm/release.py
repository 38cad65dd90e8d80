"""The pinned release of vLLM, and the oldest driver of each vendor with which it works."""

from __future__ import annotations

from collections.abc import Mapping

VLLM = "0.32.0"  # services/triton_vllm/requirements-vllm-cuda.txt; images must have the same

# The torch of services/triton_vllm/requirements-vllm.txt, and the CUDA that its wheel on PyPI is
# built for (torch/version.py of the wheel: "2.13.0+cu130").
TORCH, CUDA = "2.13.0", (13, 0)

# NVIDIA's CUDA Toolkit release notes, minimum driver versions on Linux.
LEAST_DRIVER_OF_CUDA: Mapping[tuple[int, int], str] = {(13, 0): "580.65.06"}

# AMD's engine comes in an image with its own user-space driver, for which none is known to be too
# old.
LEAST_DRIVERS: Mapping[str, str] = {"nvidia": LEAST_DRIVER_OF_CUDA[CUDA]}
