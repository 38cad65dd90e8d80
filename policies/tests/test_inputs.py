"""The files that people write: waivers.yaml and settings.yaml."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from rules import RULES
from rules.rule import Stage
from settings import read_settings, stage_of
from waivers import InputError, Waiver, read_waivers

FOLDER = Path(__file__).parents[1]
RULE_IDS = {rule.id for rule in RULES}
ENTRY = {
    "rule": "spot-floor",
    "resource": "model-*",
    "owner": "ada",
    "reason": "one week",
    "expires": "2027-01-31",
}
SETTINGS = """\
stages: {development: [dev, "dev-*"], staging: ["staging*"], production: [prod]}
allowed_licenses: [MIT]
max_price_age_days: 90
"""


def waivers_file(folder: Path, **changes: str) -> Path:
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value}
    lines = "\n".join(f"    {key}: {value}" for key, value in entry.items())
    path = folder / "waivers.yaml"
    path.write_text(f"waivers:\n  -\n{lines}\n")
    return path


def test_a_waiver_is_read_as_it_is_written(tmp_path: Path) -> None:
    assert read_waivers(waivers_file(tmp_path), RULE_IDS) == (
        Waiver(
            rule="spot-floor",
            resource="model-*",
            owner="ada",
            reason="one week",
            expires=datetime.date(2027, 1, 31),
        ),
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rule": "spot-flor"}, "waivers[0].rule"),
        ({"owner": ""}, "waivers[0]: needs exactly the keys"),
        ({"owner": "7"}, "waivers[0].owner"),
        ({"reason": "'  '"}, "waivers[0].reason"),
        ({"expires": "soon"}, "waivers[0].expires"),
        ({"expires": "2027-01-31 10:00:00"}, "waivers[0].expires"),
        ({"ticket": "X-1"}, "waivers[0]: needs exactly the keys"),
    ],
)
def test_a_mistake_in_a_waiver_is_named(
    tmp_path: Path, changes: dict[str, str], named: str
) -> None:
    with pytest.raises(InputError, match=r"waivers\.yaml") as error:
        read_waivers(waivers_file(tmp_path, **changes), RULE_IDS)
    assert named in str(error.value)


@pytest.mark.parametrize("text", ["", "waivers: yes", "- a", "waivers: [", "waivers: [text]"])
def test_a_file_that_is_not_a_list_of_waivers_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "waivers.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"waivers\.yaml"):
        read_waivers(path, RULE_IDS)


@pytest.mark.parametrize(
    ("environment", "target", "stage"),
    [
        ("dev", "aws", Stage.DEVELOPMENT),
        ("dev-ada", "aws", Stage.DEVELOPMENT),
        ("staging-eu", "dev", Stage.STAGING),
        ("prod", "dev", Stage.PRODUCTION),
        ("development-is-no-pattern", "aws", Stage.PRODUCTION),
        ("aws", "aws", Stage.PRODUCTION),
        ("", "", Stage.PRODUCTION),
        ("mine", "dev", Stage.DEVELOPMENT),
    ],
)
def test_an_environment_that_matches_nothing_is_production_except_on_one_machine(
    tmp_path: Path, environment: str, target: str, stage: Stage
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(SETTINGS)
    assert stage_of(environment, read_settings(path), target=target) is stage


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("max_price_age_days: 90\n", "", "max_price_age_days"),
        ("max_price_age_days: 90", "max_price_age_days: 0", "max_price_age_days"),
        ("development:", "laptop:", "stages: may only have"),
        ("[MIT]", "MIT", "allowed_licenses"),
        ("[dev, ", "[7, ", "development"),
        ("stages:", "stages: [", "not YAML"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = tmp_path / "settings.yaml"
    assert old in SETTINGS
    path.write_text(SETTINGS.replace(old, new))
    with pytest.raises(InputError, match=r"settings\.yaml") as error:
        read_settings(path)
    assert named in str(error.value)


def test_the_files_of_this_checkout_are_right() -> None:
    assert read_settings(FOLDER / "settings.yaml")["max_price_age_days"] == 90
    read_waivers(FOLDER / "waivers.yaml", RULE_IDS)
