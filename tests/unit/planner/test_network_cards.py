"""Network interfaces of every instance type with EFA, within the limits of its cards."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slipway.config.catalog import load_catalog
from slipway.plan.aws import AwsInterface
from slipway.planner.supply.network_cards import (
    NetworkCard,
    UnknownCardsError,
    cards_of,
    interfaces,
)
from tests.unit.config.checkout import ROOT

SHAPES = json.loads(Path(__file__).with_name("efa_types.json").read_text())["shapes"]
CATALOG = load_catalog(ROOT).instances


def cards(shape: dict[str, Any]) -> list[NetworkCard]:
    return [NetworkCard(interfaces=most, efa=efa) for most, efa in shape["cards"]]


def test_all_types_with_efa_are_here() -> None:
    assert sum(len(shape["types"]) for shape in SHAPES) == 303
    sizes = {(len(shape["cards"]), shape["efa_interfaces"]) for shape in SHAPES}
    assert len(sizes) == 8


@pytest.mark.parametrize("shape", SHAPES, ids=[shape["types"][0] for shape in SHAPES])
def test_the_interfaces_of_a_type_are_within_its_limits_and_use_every_efa(
    shape: dict[str, Any],
) -> None:
    found = interfaces(cards(shape), shape["efa_interfaces"])
    per_card = Counter(each.card for each in found)
    assert len(found) <= shape["interfaces"]
    for card, (most, efa) in enumerate(shape["cards"]):
        assert per_card[card] <= most
        assert efa or all(each.kind == "interface" for each in found if each.card == card)
    places = [(each.card, each.device) for each in found]
    assert len({*places}) == len(places)
    assert all(device < shape["cards"][card][0] for card, device in places)
    primary = found[0]
    assert (primary.card, primary.device) == (0, 0)
    assert primary.kind != "efa-only"
    assert sum(each.kind != "interface" for each in found) == shape["efa_interfaces"]
    # Only the primary one has an address: with several, routes would be a matter of luck.
    assert {each.kind for each in found[1:]} <= {"efa-only"}


def test_a_card_with_one_place_has_its_efa_on_the_primary_interface() -> None:
    """hpc6id: two cards with one interface each."""
    alone = NetworkCard(interfaces=1, efa=True)
    assert interfaces([alone, alone], 2) == (
        AwsInterface(card=0, device=0, kind="efa"),
        AwsInterface(card=1, device=0, kind="efa-only"),
    )


def test_a_first_card_without_efa_has_the_primary_interface_alone() -> None:
    """p6-b300: 16 of 17 cards have EFA."""
    found = interfaces(cards_of(CATALOG["p6-b300.48xlarge"]), 16)
    assert [each.card for each in found if each.kind == "efa-only"] == [*range(1, 17)]
    assert {each.device for each in found} == {0}


def test_an_instance_without_efa_has_one_interface() -> None:
    assert interfaces(cards_of(CATALOG["g6.xlarge"]), 0) == (
        AwsInterface(card=0, device=0, kind="interface"),
    )


def test_more_efas_than_cards_with_them_are_refused() -> None:
    with pytest.raises(ValueError, match="3 interfaces for EFA, and too few of 2 cards"):
        interfaces([NetworkCard(interfaces=4, efa=True)] * 2, 3)


@pytest.mark.parametrize("name", [name for name, each in CATALOG.items() if each.efa_interfaces])
def test_the_catalogs_cards_are_those_of_ec2(name: str) -> None:
    known = {kind: shape for shape in SHAPES for kind in shape["types"]}
    if name not in known:
        with pytest.raises(UnknownCardsError):
            cards_of(CATALOG[name])
        return
    found, listed = cards_of(CATALOG[name]), cards(known[name])
    assert [card.efa for card in found] == [card.efa for card in listed]
    assert {card.interfaces for card in found} == {min(card.interfaces for card in listed)}
    assert CATALOG[name].efa_interfaces == known[name]["efa_interfaces"]
