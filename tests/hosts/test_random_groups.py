"""Random sequences of scaling, kills, drains, cuts and `up` leave groups whole in their pools."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

from tests.hosts.bed import Bed
from tests.hosts.environment import Checkout, environment
from tests.hosts.groups import ADDRESSES, FABRIC, write_model
from tests.hosts.random_groups import PLACES, RandomGroups, always_whole_groups, settings

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SEQUENCES = 60
SEED = 32


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return ADDRESSES


@pytest.fixture(scope="module")
def fabric() -> Mapping[str, str]:
    return FABRIC


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    with environment(hosts, tmp_path_factory, models={}, settings=settings()) as made:
        for model in PLACES:
            write_model(made, model)
        made.slipway("up")
        yield made


def test_groups_are_whole_after_whatever_happens(checkout: Checkout, hosts: Bed) -> None:
    steps = RandomGroups(checkout=checkout, hosts=hosts, chance=random.Random(SEED))
    with always_whole_groups(checkout) as wrong:
        for _ in range(SEQUENCES):
            steps.sequence()
            assert wrong == [], steps.taken
