"""Brings folders of the environment's cache from its bucket. Standard library only."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .objects import Bucket
from .refusal import RefusedError

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
ENGINES_NEED = f" (this image has Python {PYTHON}; engines need an image with Python 3.11)"
ENVIRONMENTS = "envs/"  # have packages for each Python (services/operator/publish.py)
LAST = ".complete"  # of an archive that was not cut off


class IncompleteError(Exception):
    """An archive in the bucket ends too early."""


def bring(artifact: str, prefix: str, folder: Path, bucket: Bucket) -> bool:
    """The artifact's folder below `folder`; False if it is there already. It appears whole."""
    of_python = artifact.startswith(ENVIRONMENTS)
    part = f"{artifact}/lib/python{PYTHON}" if of_python else artifact
    if (folder / part).is_dir():
        return False
    key = f"{prefix}/{artifact}/{PYTHON}.tar" if of_python else f"{prefix}/{artifact}.tar"
    try:
        with _partial(folder) as partial:
            with bucket.opened(key) as answer:
                _extract(answer, partial)
            if not (partial / LAST).exists():
                raise IncompleteError(f"{key} has ended too early")
            _place(partial / artifact, folder / artifact)
    except RefusedError as error:
        raise RefusedError(f"{error}{ENGINES_NEED if of_python else ''}") from None
    return True


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".partial-boot-", dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _place(made: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.sync()
    if target.exists():  # with packages for another Python than this image's
        shutil.rmtree(target)
    made.rename(target)


def _extract(stream: Any, target: Path) -> None:
    """Newer versions of Python want to be told what an archive may contain."""
    safe: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(target, **safe)  # noqa: S202  (written by the operator alone)
