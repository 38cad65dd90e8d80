"""A platform for one benchmark, in a copy of the checkout."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.environments import Platform, copy_tree, write_environment


@contextmanager
def own_platform(
    name: str, *, network: str, models: Mapping[str, Any], nodes: int
) -> Iterator[Platform]:
    """The platform, up; at the end it is taken down and its folder removed."""
    folder = Path(tempfile.mkdtemp(prefix="slipway-bench-"))
    copy_tree(folder)
    write_environment(folder, name, network=network, models=models, nodes=nodes)
    platform = Platform(checkout=folder, name=name, network=network)
    try:
        yield dataclasses.replace(platform, first_up=platform.up())
    finally:
        platform.down()
        shutil.rmtree(folder)
