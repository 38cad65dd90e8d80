"""The modules of stacks/targets/."""

from __future__ import annotations

import pytest

from stacks.platform import Target
from stacks.targets import FOLDER, is_built, load
from tests.unit.plan.samples import ROOT

NAMES = [path.stem for path in (ROOT / FOLDER).glob("[!_]*.py")]


def test_dev_is_among_them() -> None:
    assert "dev" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_target_that_is_built_and_can_be_loaded(name: str) -> None:
    assert is_built(name, ROOT)
    assert isinstance(load(name), Target)
