"""Where a replica's weights come from: the document of the step that prepares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.config.model import ModelSettings, RemoteSource
from slipway.plan.digest import digest
from slipway.plan.platform import WeightsSpec
from slipway.planner.supply.supply import Supply

DIGEST_LENGTH = 12
ENTRYPOINT = "weights.py"
# The document's version is the lowest that has its fields: replicas of sources that version 1 knows
# stay as they are.
LOCAL_VERSION, REMOTE_VERSION = 1, 2
CREDENTIALS = "slipway/credentials"  # Nomad variables below it


def weights_of(settings: ModelSettings, supply: Supply) -> WeightsSpec | None:
    source = settings.source
    if source is None:
        return None
    identity = source.model_dump(exclude=set(RemoteSource.model_fields))
    directory = f"weights/{settings.name}-{digest(identity, length=DIGEST_LENGTH)}"
    document: dict[str, Any] = {"source": identity, "directory": directory}
    if not isinstance(source, RemoteSource):
        return WeightsSpec(
            directory=directory,
            document={"schema_version": LOCAL_VERSION, **document},
            python="vllm",
            entrypoint=ENTRYPOINT,
        )
    credentials = f"{CREDENTIALS}/{source.credentials}" if source.credentials else None
    parts = {
        "access": _stated({"endpoint": source.endpoint, "credentials": credentials}),
        "limits": _limits(supply),
        "files": source.model_dump()["files"],
    }
    return WeightsSpec(
        directory=directory,
        document={
            "schema_version": REMOTE_VERSION,
            **document,
            **{name: part for name, part in parts.items() if part},
        },
        python="weights",
        entrypoint=ENTRYPOINT,
        credentials=credentials,
        fetched_by_hosts=not supply.on_loopback,
    )


def _limits(supply: Supply) -> Mapping[str, int]:
    store = supply.model_store
    if store is None:
        return {}
    bytes_per_s = None if store.download_gbps is None else int(store.download_gbps * 1e9 / 8)
    return _stated({"files_at_once": store.files_at_once, "bytes_per_s": bytes_per_s})


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
