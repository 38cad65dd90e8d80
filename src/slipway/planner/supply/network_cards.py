"""The network interfaces of an instance with EFA: which card, which device, what kind. Pure.

Rules: Amazon EC2 User Guide, "Maximize network bandwidth on Amazon EC2 instances with multiple
network cards" and "Elastic Fabric Adapter" (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from slipway.config.catalog import Instance
from slipway.plan.aws import AwsInterface


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCard:
    """`interfaces` is how many it can have."""

    interfaces: int
    efa: bool


class UnknownCardsError(Exception):
    """The catalog does not say what the cards of an instance can have."""


def cards_of(instance: Instance) -> tuple[NetworkCard, ...]:
    """Raises UnknownCardsError for an instance with EFA whose cards the catalog does not have."""
    if not instance.efa_interfaces:
        return (NetworkCard(interfaces=1, efa=False),)  # nothing else is put on it
    if instance.interfaces_per_card is None:
        raise UnknownCardsError
    return tuple(
        NetworkCard(
            interfaces=instance.interfaces_per_card,
            efa=card > 0 or instance.efa_on_first_card,
        )
        for card in range(instance.network_cards)
    )


def interfaces(cards: Sequence[NetworkCard], efa: int) -> tuple[AwsInterface, ...]:
    """The primary interface, and others up to `efa` interfaces with EFA in total, at most one per
    card.

    The primary one is on card 0 as device 0, and it has the host's address. It has EFA only where
    its card has no place for another interface. Raises ValueError if too few cards support EFA.
    """
    alone = cards[0].interfaces == 1
    primary = AwsInterface(
        card=0, device=0, kind="efa" if efa and cards[0].efa and alone else "interface"
    )
    others = efa - (primary.kind == "efa")
    fabric = tuple(islice(_for_efa(cards), others))
    if len(fabric) < others:
        raise ValueError(f"{efa} interfaces for EFA, and too few of {len(cards)} cards support it")
    return (primary, *fabric)


def _for_efa(cards: Sequence[NetworkCard]) -> Iterator[AwsInterface]:
    for number, card in enumerate(cards):
        device = 1 if number == 0 else 0  # device 0 of card 0 is the primary one
        if card.efa and device < card.interfaces:
            yield AwsInterface(card=number, device=device, kind="efa-only")
