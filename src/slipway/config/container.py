"""How the hosts of a pool run engines: from their own Python, or in containers of one image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, Protocol

from .document import KeyPath, Origin
from .errors import Problem

Runtime = Literal["bare", "container"]
BARE: Runtime = "bare"

_DIGEST = "sha256:[0-9a-f]{64}"
_BY_ID = re.compile(_DIGEST)
_BY_DIGEST = re.compile(
    rf"([a-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*@{_DIGEST}"  # host:port/path
)


class RunsEngines(Protocol):
    """A pool. `image` is NAME@sha256:… from a registry, or the ID of an image in a file,
    `image_archive`, which is brought to its hosts."""

    accelerator: str | None
    runtime: Runtime
    image: str | None
    image_archive: str | None


def _is_id(image: str) -> bool:
    """Whether it is an image's own ID. An image that came from an archive has no digest."""
    return _BY_ID.fullmatch(image) is not None


def container_problems(pool: RunsEngines, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    if pool.runtime == BARE:
        for key in ("image", "image_archive"):
            if getattr(pool, key) is not None:
                yield origin.problem(
                    (*path, key),
                    "applies to containers only",
                    value=getattr(pool, key),
                    fix=f"add `runtime: container` to the pool, or remove {key}",
                )
        return
    if pool.accelerator is None:
        yield origin.problem(
            (*path, "runtime"),
            "is for pools with accelerators: engines on processors run bare",
            value=pool.runtime,
            fix="remove it",
        )
    yield from _image_problems(pool, path, origin)


def _image_problems(pool: RunsEngines, path: KeyPath, origin: Origin) -> Iterator[Problem]:
    image, archive = pool.image, pool.image_archive
    if image is None:
        yield origin.problem(
            (*path, "image"),
            "is missing: containers need an image with Triton and vLLM",
            fix="add `image: NAME@sha256:…`, with the digest that the registry states",
        )
    elif _is_id(image):
        if archive is None:
            yield origin.problem(
                (*path, "image_archive"),
                "is missing: an image that is named by its ID is in no registry",
                value=image,
                fix="add `image_archive:` with the file that `docker save` has written, or name"
                " the image by NAME@sha256:…",
            )
    elif _BY_DIGEST.fullmatch(image) is None:
        yield origin.problem(
            (*path, "image"),
            "does not say which content it is: a tag can be moved to another image",
            value=image,
            fix="write NAME@sha256:… without a tag (`docker buildx imagetools inspect NAME:TAG`"
            " prints the digest)",
        )
    elif archive is not None:
        yield origin.problem(
            (*path, "image_archive"),
            "is for an image that is named by its ID: one that is loaded from a file has no digest",
            value=archive,
            fix="remove it, or name the image by its ID (`docker load` prints it)",
        )
