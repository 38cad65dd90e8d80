"""The disk on which the hosts of a pool keep weights."""

from __future__ import annotations

from slipway.config.model_store import ModelStoreSettings
from slipway.plan.platform import ModelStore


def stated_store(settings: ModelStoreSettings | None) -> ModelStore | None:
    """None where the pool states none."""
    if settings is None:
        return None
    return ModelStore(
        path=settings.path or "",
        size_bytes=settings.size,
        download_gbps=settings.download_gbps,
        files_at_once=settings.files_at_once,
    )
