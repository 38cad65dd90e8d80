"""The certificate authorities and the gossip key of an environment, which can be replaced while it
runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from .base import Settings, Tagged, invalid, matching

Generation = Annotated[int, Field(ge=1, le=1_000_000)]
File = Annotated[str, Field(min_length=1)]


class OwnAuthority(Tagged):
    """A certificate authority of your own. `cert` is a PEM file: the certificate that signs, and
    after an intermediate one those above it, in order. Its private key is in one of three places: a
    file that only its owner may read (`key`), an environment variable (`key_variable`), or a secret
    of the stack's configuration (`key_secret: pki:ca-key`, which `pulumi config set --secret` has
    set). One that is only trusted needs no key. Paths are relative to the checkout, or begin with
    `~`."""

    TAG = "own"
    EXAMPLE = "{cert: ca.pem, key: ca-key.pem}"
    cert: File
    key: File | None = None
    key_variable: (
        Annotated[
            str,
            matching(
                "[A-Za-z_][A-Za-z0-9_]*", allowed="the name of a variable", example="SLIPWAY_CA_KEY"
            ),
        ]
        | None
    ) = None
    key_secret: (
        Annotated[
            str,
            matching(
                "(?!slipway:)[^:]+:[^:]+",
                allowed="a key of the stack's configuration in another namespace than slipway",
                example="pki:ca-key",
            ),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = [name for name in KEY_PLACES if getattr(self, name) is not None]
        if len(places) > 1:
            raise invalid(f"has both `{places[0]}` and `{places[1]}`", fix="keep one of them")
        return self


KEY_PLACES = ("key", "key_variable", "key_secret")


def _kind(value: Any) -> str:
    return OwnAuthority.TAG if isinstance(value, Mapping | OwnAuthority) else "generation"


Authority = Annotated[
    Annotated[Generation, Tag("generation")] | Annotated[OwnAuthority, Tag(OwnAuthority.TAG)],
    Discriminator(_kind),
]


def _different(authorities: tuple[Authority, ...]) -> tuple[Authority, ...]:
    if not authorities:
        raise invalid("must not be empty", fix="add at least one entry")
    known = [each.cert if isinstance(each, OwnAuthority) else each for each in authorities]
    if len(set(known)) < len(known):
        raise invalid("lists the same authority twice", fix="list it once")
    return authorities


class SecuritySettings(Settings):
    """`authorities` are the certificate authorities that everybody trusts; the first signs. Each is
    a generation of the platform's own (a number), or the user's: `{cert: ca.pem, key: ca-key.pem}`.
    To replace one: `[1, 2]`, then `[2, 1]`, then `[2]`, each with an `up`. Another `gossip_key`
    replaces the key that agents encrypt their gossip with."""

    EXAMPLE = "{authorities: [1], gossip_key: 1}"
    authorities: Annotated[
        tuple[Authority, ...],
        Field(strict=False, max_length=2),
        AfterValidator(_different),
    ] = (1,)
    gossip_key: Generation = 1
