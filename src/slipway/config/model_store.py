"""Where the hosts of a pool keep the weights of its models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import PositiveFloat, Settings, SizeBytes
from .model import AbsolutePath


class FetchedWeightsSettings(Settings):
    """`path` is where the disk is mounted; left out, weights go below Slipway's own folder.
    `download_gbps` bounds what one host takes of the network when it fetches a model,
    `files_at_once` the files that it fetches side by side."""

    path: AbsolutePath | None = None
    download_gbps: PositiveFloat | None = None
    files_at_once: Annotated[int, Field(ge=1, le=64)] = 4


class ModelStoreSettings(FetchedWeightsSettings):
    """A disk of every host of the pool. All models of the pool must fit on it together."""

    EXAMPLE = "{path: /mnt/models, size: 3TiB}"
    size: SizeBytes


class AwsModelStoreSettings(FetchedWeightsSettings):
    """The same for instances. Those of an elastic pool mount their own disks (instance store) at
    `path`; the size is then known and need not be stated."""

    EXAMPLE = "{path: /mnt/models}"
    size: SizeBytes | None = None
