"""What a running environment trusts, in generations: a new one is added before an old one goes."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from .base import Settings, invalid

Generation = Annotated[int, Field(ge=1, le=1_000_000)]


def _different(generations: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(generations)) < len(generations):
        raise invalid("lists the same authority twice", fix="list it once")
    return generations


class SecuritySettings(Settings):
    """`authorities` are the generations of the platform's own certificate authority that everybody
    trusts; the first signs. To replace it: `[1, 2]`, then `[2, 1]`, then `[2]`, each with an `up`.
    Another `gossip_key` replaces the key that agents encrypt their gossip with."""

    EXAMPLE = "{authorities: [1], gossip_key: 1}"
    authorities: Annotated[
        tuple[Generation, ...],
        Field(strict=False, min_length=1, max_length=2),
        AfterValidator(_different),
    ] = (1,)
    gossip_key: Generation = 1
