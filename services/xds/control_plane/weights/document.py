"""A model's weights in Consul (schemas/replica-weights.schema.json is this model's schema).

One control plane computes them, and all of them read them, so that every Envoy places a key alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..kv_document import document_from_kv
from ..routing import EQUAL_WEIGHT, Name

WEIGHTS_PREFIX = "slipway/weights/"
LOCK_KEY = f"{WEIGHTS_PREFIX}.lock"  # no model's name begins with a dot

LOWEST, STEP = 30, 10  # in percent of an equal share
ReplicaName = Annotated[str, Field(min_length=1, max_length=256)]
Weight = Annotated[int, Field(ge=LOWEST, le=EQUAL_WEIGHT, multiple_of=STEP)]


class Weights(BaseModel):
    """The weight of every replica of a model, in percent of an equal share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    model: Name
    replicas: dict[ReplicaName, Weight]


def by_replica(served: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The weights of several models in one mapping: names of replicas have their job's."""
    return {replica: weight for each in served for replica, weight in each.items()}


def weights_from_kv(entry: Mapping[str, Any]) -> Weights:
    """One KV entry. Raises BadDocumentError."""
    return document_from_kv(entry, WEIGHTS_PREFIX, Weights)
