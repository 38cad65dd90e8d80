"""Messages of Triton's gRPC service, as shipped in the tritonclient wheel.

Importing `tritonclient.grpc` itself would load numpy and the whole client: half as much memory
again as this process needs. So only its generated modules are imported.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any


def _load() -> tuple[Any, Any, Any]:
    if "tritonclient.grpc" not in sys.modules:
        spec = importlib.util.find_spec("tritonclient")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("tritonclient is not installed")
        package = types.ModuleType("tritonclient.grpc")
        package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "grpc")]
        sys.modules["tritonclient.grpc"] = package
    names = ("service_pb2", "service_pb2_grpc", "model_config_pb2")
    messages, services, config = (
        importlib.import_module(f"tritonclient.grpc.{name}") for name in names
    )
    return messages, services, config


messages, services, config = _load()
