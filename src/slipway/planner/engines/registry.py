"""Every engine, by the kind in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slipway.config.model import Model, SimEngine, VllmEngine

from .adapter import EngineAdapter
from .sim.adapter import SimAdapter
from .vllm.adapter import VllmAdapter

_VLLM = VllmAdapter()
ENGINES: Mapping[str, EngineAdapter] = MappingProxyType(
    {VllmEngine.TAG: _VLLM, SimEngine.TAG: SimAdapter(simulates=_VLLM)}
)


def engine_of(model: Model) -> EngineAdapter:
    return ENGINES[model.settings.engine.kind]
