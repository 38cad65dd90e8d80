"""The disk on which the hosts of a pool keep weights."""

from __future__ import annotations

from slipway.config.model_store import FetchedWeightsSettings, ModelStoreSettings
from slipway.plan.platform import ModelStore


def stated_store(settings: ModelStoreSettings | None) -> ModelStore | None:
    """None where the pool states none."""
    return None if settings is None else store_of(settings, settings.size)


def store_of(settings: FetchedWeightsSettings, size_bytes: int) -> ModelStore:
    return ModelStore(
        path=settings.path or "",
        size_bytes=size_bytes,
        download_gbps=settings.download_gbps,
        files_at_once=settings.files_at_once,
    )
