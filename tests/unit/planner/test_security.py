"""What a plan says of the authorities that the user brings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway.certificates.own_authority import read_authorities
from slipway.plan.platform import PlatformPlan
from slipway.planner.security import leaf_valid_days
from stacks.planning import make_plan
from tests.unit.certificates.own_authorities import made
from tests.unit.plan.samples import dev_inputs

OWN = {"cert": "ca.pem", "key": "ca-key.pem"}


def planned(folder: Path, *, days: float) -> PlatformPlan:
    """The plan of dev with an authority that has so many days left."""
    made(days=days).write(folder)
    inputs = dev_inputs(security={"authorities": [OWN]})
    own = read_authorities(folder, inputs.environment, written={}, decrypted={})
    return make_plan(replace(inputs, own_authorities=own))


def about_it(plan: PlatformPlan) -> list[str]:
    return [warning for warning in plan.warnings if "CN=own" in warning]


def test_there_is_nothing_to_say_while_it_outlives_what_it_signs(tmp_path: Path) -> None:
    assert about_it(planned(tmp_path, days=400)) == []
    assert make_plan(dev_inputs()).warnings == planned(tmp_path, days=400).warnings


def test_its_last_year_is_a_warning(tmp_path: Path) -> None:
    (warning,) = about_it(planned(tmp_path, days=200.5))
    assert "CN=own ends in 200 days" in warning
    assert "valid for 180 days" in warning


def test_one_that_has_expired_can_be_planned_and_the_plan_says_that_up_is_refused(
    tmp_path: Path,
) -> None:
    (warning,) = about_it(planned(tmp_path, days=-1))
    assert "slipway:security.authorities.0.cert: has expired: CN=own ended" in warning
    assert warning.endswith("slipway up refuses it")


@pytest.mark.parametrize(
    ("left", "valid"), [(4000, 365), (365, 365), (364, 180), (180, 180), (179, 120), (-1, 120)]
)
def test_what_it_signs_is_shorter_in_its_last_year(left: int, valid: int) -> None:
    assert leaf_valid_days(left) == valid
